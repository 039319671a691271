// In the program these definitions take the place of those that call MPI and oneDNN.
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "modules/modules.h"
#include "mpi_group.h"

namespace batchless::training {
namespace {

// A module stays open. The program's run path says where it lies. `without` begins what is said where it is
// not there.
template <class Module>
const Module& Load(const char* file, const char* name, const std::string& without = "") {
  // Open MPI's own plugins look for its symbols among the global ones.
  void* handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  const void* symbol = handle == nullptr ? nullptr : dlsym(handle, name);
  if (symbol == nullptr) throw std::runtime_error(without + dlerror());
  return *static_cast<const Module*>(symbol);
}

const OneDnnModule& OneDnn() {
  static const OneDnnModule& kModule = Load<OneDnnModule>("batchless_onednn.so", "kOneDnnModule");
  return kModule;
}

}  // namespace

std::shared_ptr<ProcessGroup> MakeMpiGroup() {
  return Load<MpiModule>("batchless_mpi.so", "kMpiModule", std::string(kNoMpi) + ": ").make_group();
}

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose) {
  return OneDnn().make_convolution(shape, transpose);
}

std::string OneDnnVersion() { return OneDnn().version(); }

}  // namespace batchless::training
