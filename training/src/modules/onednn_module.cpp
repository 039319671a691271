#include "modules/modules.h"

namespace batchless::training {

void batchless_make_onednn_convolution(const ConvolutionShape& shape, TransposeBlocks transpose,
                                       std::unique_ptr<Convolution<float>>& convolution) {
  convolution = MakeOneDnnConvolution(shape, transpose);
}

void batchless_onednn_version(std::string& version) { version = OneDnnVersion(); }

}  // namespace batchless::training
