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
template <class Function>
Function* Load(const char* module, const char* name, const std::string& without = "") {
  // Open MPI's own plugins look for its symbols among the global ones.
  void* handle = dlopen(module, RTLD_NOW | RTLD_GLOBAL);
  void* symbol = handle == nullptr ? nullptr : dlsym(handle, name);
  if (symbol == nullptr) throw std::runtime_error(without + dlerror());
  return reinterpret_cast<Function*>(symbol);
}

constexpr const char* kMpi = "batchless_mpi.so";
constexpr const char* kOneDnn = "batchless_onednn.so";

}  // namespace

std::shared_ptr<ProcessGroup> MakeMpiGroup() {
  std::shared_ptr<ProcessGroup> group;
  Load<decltype(batchless_make_mpi_group)>(kMpi, "batchless_make_mpi_group",
                                           std::string(kNoMpi) + ": ")(group);
  return group;
}

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose) {
  static auto* const kMake = Load<decltype(batchless_make_onednn_convolution)>(
      kOneDnn, "batchless_make_onednn_convolution");
  std::unique_ptr<Convolution<float>> convolution;
  kMake(shape, transpose, convolution);
  return convolution;
}

std::string OneDnnVersion() {
  std::string version;
  Load<decltype(batchless_onednn_version)>(kOneDnn, "batchless_onednn_version")(version);
  return version;
}

}  // namespace batchless::training
