// What the program's modules offer it. A module is a shared object with the one source that calls a
// library which brings many others, MPI or oneDNN; the program opens it at its first use, so whatever
// does not train starts without them. Programs that link the static library need no modules.
#pragma once

#include <memory>
#include <string>

#include "backends/onednn_convolution.h"
#include "batchless/training/process_group.h"

namespace batchless::training {

extern "C" {

// batchless_mpi.so
__attribute__((visibility("default"))) void batchless_make_mpi_group(
    std::shared_ptr<ProcessGroup>& group);

// batchless_onednn.so
__attribute__((visibility("default"))) void batchless_make_onednn_convolution(
    const ConvolutionShape& shape, TransposeBlocks transpose,
    std::unique_ptr<Convolution<float>>& convolution);
__attribute__((visibility("default"))) void batchless_onednn_version(std::string& version);

}  // extern "C"

}  // namespace batchless::training
