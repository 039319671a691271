// What the program's modules offer it. A module is a shared object with the one source that calls a
// library which brings many others, MPI or oneDNN; the program opens it at its first use, so whatever
// does not train starts without them. Programs that link the static library need no modules.
#pragma once

#include <memory>
#include <string>

#include "backends/onednn_convolution.h"
#include "batchless/training/process_group.h"

namespace batchless::training {

struct MpiModule {
  std::shared_ptr<ProcessGroup> (*make_group)();
};

struct OneDnnModule {
  std::unique_ptr<Convolution<float>> (*make_convolution)(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose);
  std::string (*version)();
};

// What batchless_mpi.so and batchless_onednn.so export.
extern "C" {
extern __attribute__((visibility("default"))) const MpiModule kMpiModule;
extern __attribute__((visibility("default"))) const OneDnnModule kOneDnnModule;
}

}  // namespace batchless::training
