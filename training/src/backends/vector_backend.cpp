#include <algorithm>
#include <array>

#include "backends/direct_convolution.h"
#include "backends/onednn_convolution.h"
#include "backends/small_image_convolution.h"
#include "backends/token_kernels.h"
#include "backends/vector_kernels.h"
#include "backends/winograd_convolution.h"

namespace batchless::training {
namespace {

class VectorBackend final : public Backend<float> {
 public:
  VectorBackend(int block, ConvolutionMethod method)
      : block_(block),
        method_(method),
        kernels_(FindVectorKernels(block)),
        tokens_(FindTokenKernels(block)) {}

  int block() const override { return block_; }

  std::unique_ptr<Convolution<float>> MakeConvolution(
      const ConvolutionShape& shape) const override {
    if (method_ == ConvolutionMethod::kWinograd) {
      if (SuitsSmallImage(shape)) return MakeSmallImageConvolution(shape);
      if (const int edge = WinogradEdge(shape); edge != 0) {
        return MakeWinogradConvolution(shape, edge);
      }
      if (SuitsDirect(shape)) return MakeDirectConvolution(shape);
    }
    return MakeOneDnnConvolution(shape, kernels_.transpose_blocks);
  }

  void NormalizationStatistics(const NormalizationShape& shape, const float* x, const float* gamma,
                               const float* beta,
                               const ChannelConstants<float>& constants) const override {
    kernels_.statistics(shape, x, gamma, beta, constants);
  }

  void NormalizedRelu(const NormalizationShape& shape, const float* x,
                      const ChannelConstants<float>& constants, float* h) const override {
    if (constants.scale == nullptr) {
      kernels_.relu(Elements(shape), x, h);
    } else {
      kernels_.normalized_relu(shape, x, constants, h);
    }
  }

  void NormalizedReluBackward(const NormalizationShape& shape,
                              const NormalizationGradient& gradient) const override {
    if (gradient.constants.scale != nullptr) {
      kernels_.normalized_relu_backward(shape, gradient);
      return;
    }
    if (gradient.dx == nullptr) return;
    kernels_.relu_backward(Elements(shape), gradient.x, gradient.dh, gradient.add_dx, gradient.dx);
    if (gradient.dh_extra != nullptr) {
      kernels_.relu_backward(Elements(shape), gradient.x, gradient.dh_extra, true, gradient.dx);
    }
  }

  void Add(std::int64_t size, const float* a, const float* b, float* sum) const override {
    kernels_.add(size, a, b, sum);
  }

  void ReluBackward(std::int64_t size, const float* y, const float* dy, bool add,
                    float* dx) const override {
    kernels_.relu_backward(size, y, dy, add, dx);
  }

  void BiasGradient(const NormalizationShape& shape, const float* dy, bool add,
                    float* sums) const override {
    kernels_.bias_gradient(shape, dy, add, sums);
  }

  void MaxPool(const PoolShape& shape, const float* x, float* y,
               std::uint8_t* winners) const override {
    kernels_.max_pool(shape, x, y, winners);
  }

  void MaxPoolBackward(const PoolShape& shape, const std::uint8_t* winners, const float* dy,
                       float* dx) const override {
    const hwmodel::Layer& l = shape.layer;
    const std::int64_t blocks =
        shape.microbatch * std::int64_t{(l.input.channels + block_ - 1) / block_};
    const std::int64_t image = l.input.pixels() * block_;
    std::fill_n(dx, blocks * image, 0.0F);
    // From the window's first pixel to the one that a winner's byte stands for.
    std::array<std::int32_t, kMostMaxPoolKernel * kMostMaxPoolKernel> offsets{};
    for (int k = 0; k < l.kernel * l.kernel; ++k) {
      offsets[k] = (k / l.kernel * l.input.width + k % l.kernel) * block_;
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (int oh = 0; oh < l.output.height; ++oh) {
        for (int ow = 0; ow < l.output.width; ++ow) {
          const std::int64_t top = oh * l.stride - l.padding;
          const std::int64_t left = ow * l.stride - l.padding;
          const std::int64_t first = b * image + (top * l.input.width + left) * block_;
          for (int lane = 0; lane < block_; ++lane, ++winners, ++dy) {
            dx[first + offsets[*winners] + lane] += *dy;
          }
        }
      }
    }
  }

  void AveragePool(const PoolShape& shape, const float* x, float* y) const override {
    kernels_.average_pool(shape, x, y);
  }

  void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx) const override {
    kernels_.average_pool_backward(shape, dy, dx);
  }

  void Linear(std::int64_t n, std::int64_t in, std::int64_t out, const float* x, const float* w,
              const float* b, float* y) const override {
    kernels_.linear(n, in, out, x, w, b, y);
  }

  void LinearBackwardInput(std::int64_t n, std::int64_t in, std::int64_t out, const float* dy,
                           const float* w, float* dx) const override {
    kernels_.linear_backward_input(n, in, out, dy, w, dx);
  }

  void LinearBackwardWeights(std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                             const float* dy, bool add, float* dw, float* db) const override {
    kernels_.linear_backward_weights(n, in, out, x, dy, add, dw, db);
  }

  std::int64_t ProductWorkspace(std::int64_t rows, std::int64_t columns,
                                std::int64_t steps) const override {
    return tokens_.product_workspace(rows, columns, steps);
  }

  void Multiply(const Product<float>& product, float* workspace) const override {
    tokens_.multiply(product, workspace);
  }

  void SumRows(std::int64_t rows, std::int64_t columns, const float* y, bool add,
               float* sums) const override {
    tokens_.sum_rows(rows, columns, y, add, sums);
  }

  void RowStatistics(const RowNormalization<float>& norm) const override {
    tokens_.row_statistics(norm);
  }

  void NormalizeRows(const RowNormalization<float>& norm, const float* gamma, const float* beta,
                     float* y) const override {
    tokens_.normalize_rows(norm, gamma, beta, y);
  }

  void NormalizeRowsBackward(const RowNormalization<float>& norm, const float* gamma,
                             const float* dy, bool add_dx, float* dx, bool add_gradient,
                             float* dgamma, float* dbeta) const override {
    tokens_.normalize_rows_backward(norm, gamma, dy, add_dx, dx, add_gradient, dgamma, dbeta);
  }

  void Gelu(std::int64_t size, const float* x, float* y) const override {
    tokens_.gelu(size, x, y);
  }

  void GeluBackward(std::int64_t size, const float* x, const float* dy, bool add,
                    float* dx) const override {
    tokens_.gelu_backward(size, x, dy, add, dx);
  }

  void SquaredRelu(std::int64_t size, const float* x, float* y) const override {
    tokens_.squared_relu(size, x, y);
  }

  void SquaredReluBackward(std::int64_t size, const float* x, const float* dy, bool add,
                           float* dx) const override {
    tokens_.squared_relu_backward(size, x, dy, add, dx);
  }

  std::int64_t AttentionWorkspace(const AttentionShape& shape) const override {
    return tokens_.attention_workspace(shape);
  }

  void Attention(const AttentionShape& shape, const float* x, float* y, float* log_sums,
                 float* workspace) const override {
    tokens_.attention(shape, x, y, log_sums, workspace);
  }

  void AttentionBackward(const AttentionShape& shape, const float* x, const float* log_sums,
                         const float* dy, float* dx, float* workspace) const override {
    tokens_.attention_backward(shape, x, log_sums, dy, dx, workspace);
  }

  void CrossEntropy(std::int64_t rows, std::int64_t classes, const float* z,
                    const std::int32_t* labels, float* p, float* losses,
                    std::uint8_t* correct) const override {
    tokens_.cross_entropy(rows, classes, z, labels, p, losses, correct);
  }

 private:
  static std::int64_t Elements(const NormalizationShape& shape) {
    return shape.microbatch * shape.stored_channels() * shape.pixels;
  }

  int block_;
  ConvolutionMethod method_;
  VectorKernels kernels_;
  TokenKernels tokens_;
};

}  // namespace

std::shared_ptr<const Backend<float>> MakeVectorBackend(int block, ConvolutionMethod method) {
  return std::make_shared<VectorBackend>(block == 0 ? PreferredBlock() : block, method);
}

}  // namespace batchless::training
