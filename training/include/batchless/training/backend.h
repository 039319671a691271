// The arithmetic that stages are made of, behind one interface for each number type.
//
//   reference   plain loops, float and double, plain (n, c, h, w) tensors: what the others are
//               tested against, and what linear problems use in double
//   vector      float, channels in blocks of B = 16: convolutions by Winograd's method or direct sums,
//               the rest by vector loops over a block's channels
//
// Both give the same bits whatever the number of threads; each kernel call is sequential.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "batchless/hwmodel/network.h"
#include "batchless/training/gradient_consumer.h"
#include "batchless/training/parameter_tensor.h"
#include "batchless/training/prefetcher.h"

namespace batchless::training {

/// Whose kernels convolve.
enum class ConvolutionMethod : unsigned char {
  kReference,  ///< plain loops, the reference backend
  kDirect,     ///< direct sums
  kWinograd,   ///< by F(2x2), F(4x4) or direct sums, whichever suits the layer
};

/// B: channels in a block of the vector backend's image tensors.
inline constexpr int kBlock = 16;

/// y = W * x + b and its gradients, for one shape. What `ahead` has is fetched meanwhile by kernels that
/// compute long enough from the caches; it may be null.
template <class Real>
class Convolution {
 public:
  explicit Convolution(ParameterTensor weight) : weight_(std::move(weight)) {}
  virtual ~Convolution() = default;
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  /// Order and stored size of the weights; offset and names are the stage's.
  const ParameterTensor& weight_tensor() const { return weight_; }
  /// Scratch in elements.
  virtual std::int64_t workspace_size() const = 0;

  /// `bias` may be null; it is padded like the output's channels.
  virtual void Forward(const Real* x, const Real* weights, const Real* bias, Real* y,
                       Real* workspace, Prefetcher* ahead) = 0;
  virtual void BackwardInput(const Real* dy, const Real* weights, Real* dx, Real* workspace,
                             Prefetcher* ahead) = 0;
  /// Overwrites dw. With a consumer, which may be null, dw is scratch for its pieces.
  virtual void BackwardWeights(const Real* x, const Real* dy, Real* dw, Real* workspace,
                               Prefetcher* ahead, GradientConsumer<Real>* consumer) = 0;

 private:
  ParameterTensor weight_;
};

struct ConvolutionShape {
  hwmodel::Layer layer;  ///< kind kConvolution
  int microbatch = 1;
  int input_block = 1;
  int output_block = 1;
};

/// Added to a variance before its root is taken, as in PyTorch.
inline constexpr double kNormalizationEpsilon = 1e-5;

/// Size of a normalisation's tensors; statistics are over sets of elements: each group of each
/// sample, or each channel of the whole micro-batch.
struct NormalizationShape {
  int microbatch = 1;
  int channels = 1;
  std::int64_t pixels = 1;
  int block = 1;
  hwmodel::Normalization kind = hwmodel::Normalization::kNone;
  int groups = 1;
  bool rectifies = true;  ///< by a ReLU behind it; alone without normalisation

  std::int64_t stored_channels() const { return RoundUp(channels, block); }
  /// Sets of channel constants: one for each sample with group normalisation, else one.
  std::int64_t sets() const { return kind == hwmodel::Normalization::kGroup ? microbatch : 1; }
  /// Samples that share a set; those of set i are from i on.
  std::int64_t samples_in_set() const { return microbatch / sets(); }
  /// Channels, one after the other, that share statistics.
  int group_width() const { return kind == hwmodel::Normalization::kGroup ? channels / groups : 1; }
};

/// Channel constants of one normalisation: x_hat = (x - mean) * inverse_standard_deviation and
/// norm(x) = scale * x + shift, each (sets, stored channels). Without normalisation all are null.
template <class Real>
struct ChannelConstants {
  Real* scale = nullptr;
  Real* shift = nullptr;
  Real* mean = nullptr;
  Real* inverse_standard_deviation = nullptr;
};

/// Largest edge of a max-pool's window, whose pixels a byte numbers.
inline constexpr int kMostMaxPoolKernel = 16;

struct PoolShape {
  int microbatch = 1;
  hwmodel::Layer layer;
};

/// c[r][n] = bias[n] + sum over k of a[r][k] b[k][n], or that added to c. Numbers are where the distances
/// say: a[r][k] at a + r a_row + k a_step, b[k][n] at b + k b_step + n b_column, one of both 1, c[r][n]
/// at c + r c_row + n. c overlaps neither.
template <class Real>
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t steps = 0;
  const Real* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_step = 1;
  const Real* b = nullptr;
  std::int64_t b_step = 0;
  std::int64_t b_column = 1;
  const Real* bias = nullptr;  ///< (columns); null: 0. Not with add
  Real* c = nullptr;
  std::int64_t c_row = 0;
  bool add = false;
};

/// Causal attention of `sequences`; a row of x is a token's queries, keys and values, 3 width() numbers,
/// each of these by head (layer.h).
struct AttentionShape {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;
  std::int64_t heads = 1;
  std::int64_t head_width = 1;

  std::int64_t width() const { return heads * head_width; }
  std::int64_t rows() const { return sequences * tokens; }
};

/// Statistics of each row of (rows, width), which is normalised by itself:
/// y = gamma (x - mean) inverse_standard_deviation + beta. Not centred, the mean is 0 and the deviation
/// that from 0; beta may be null, and dbeta with it.
template <class Real>
struct RowNormalization {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const Real* x = nullptr;
  Real* mean = nullptr;                        ///< (rows)
  Real* inverse_standard_deviation = nullptr;  ///< (rows)
  bool is_centered = true;
};

template <class Real>
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// Channels in a block of image tensors.
  virtual int block() const = 0;

  virtual std::unique_ptr<Convolution<Real>> MakeConvolution(
      const ConvolutionShape& shape) const = 0;

  /// Statistics of x and the constants that follow from them and from gamma and beta.
  /// Variances are biased, as in PyTorch.
  virtual void NormalizationStatistics(const NormalizationShape& shape, const Real* x,
                                       const Real* gamma, const Real* beta,
                                       const ChannelConstants<Real>& constants) const = 0;
  /// h = max(0, scale * x + shift), without the maximum where nothing rectifies; max(0, x) where the
  /// constants are null.
  virtual void NormalizedRelu(const NormalizationShape& shape, const Real* x,
                              const ChannelConstants<Real>& constants, Real* h) const = 0;
  /// dx from dh (+ dh_extra where it is not null, of a ReLU alone), with the forward's constants and the backward's
  /// gamma; dgamma and dbeta are overwritten or added to (add_gradient), dx likewise (add_dx).
  /// workspace: 4 * stored channels.
  struct NormalizationGradient {
    const Real* x = nullptr;  ///< of a ReLU alone its output does as well
    const Real* dh = nullptr;
    const Real* dh_extra = nullptr;
    const Real* gamma = nullptr;
    ChannelConstants<const Real> constants;
    Real* dx = nullptr;  ///< null: not wanted
    bool add_dx = false;
    Real* dgamma = nullptr;
    Real* dbeta = nullptr;
    bool add_gradient = false;
    Real* workspace = nullptr;
  };
  virtual void NormalizedReluBackward(const NormalizationShape& shape,
                                      const NormalizationGradient& gradient) const = 0;

  /// sum = a + b; any of them may be the same.
  virtual void Add(std::int64_t size, const Real* a, const Real* b, Real* sum) const = 0;
  /// sums[c] (+)= sum of dy over samples and pixels.
  virtual void BiasGradient(const NormalizationShape& shape, const Real* dy, bool add,
                            Real* sums) const = 0;

  /// `winners` gets the index within its window of each output's source.
  virtual void MaxPool(const PoolShape& shape, const Real* x, Real* y,
                       std::uint8_t* winners) const = 0;
  virtual void MaxPoolBackward(const PoolShape& shape, const std::uint8_t* winners, const Real* dy,
                               Real* dx) const = 0;
  /// Over all pixels; the output is plain.
  virtual void AveragePool(const PoolShape& shape, const Real* x, Real* y) const = 0;
  virtual void AveragePoolBackward(const PoolShape& shape, const Real* dy, Real* dx) const = 0;

  /// y (n, out) = x (n, in) W' + b; W is (out, in) row-major in all three.
  virtual void Linear(std::int64_t n, std::int64_t in, std::int64_t out, const Real* x,
                      const Real* w, const Real* b, Real* y) const = 0;
  virtual void LinearBackwardInput(std::int64_t n, std::int64_t in, std::int64_t out,
                                   const Real* dy, const Real* w, Real* dx) const = 0;
  virtual void LinearBackwardWeights(std::int64_t n, std::int64_t in, std::int64_t out,
                                     const Real* x, const Real* dy, bool add, Real* dw,
                                     Real* db) const = 0;

  /// Scratch of a product in elements.
  virtual std::int64_t ProductWorkspace(std::int64_t rows, std::int64_t columns,
                                        std::int64_t steps) const = 0;
  virtual void Multiply(const Product<Real>& product, Real* workspace) const = 0;
  /// sums[c] (+)= sum of the rows of y (rows, columns).
  virtual void SumRows(std::int64_t rows, std::int64_t columns, const Real* y, bool add,
                       Real* sums) const = 0;

  /// Variances are biased. y from the statistics that are there, or after they have been made.
  virtual void RowStatistics(const RowNormalization<Real>& norm) const = 0;
  virtual void NormalizeRows(const RowNormalization<Real>& norm, const Real* gamma,
                             const Real* beta, Real* y) const = 0;
  /// dx (+)= what follows from dy by gamma; null: not wanted. dgamma and dbeta (width) are overwritten or
  /// added to. dx may be dy.
  virtual void NormalizeRowsBackward(const RowNormalization<Real>& norm, const Real* gamma,
                                     const Real* dy, bool add_dx, Real* dx, bool add_gradient,
                                     Real* dgamma, Real* dbeta) const = 0;

  virtual void Gelu(std::int64_t size, const Real* x, Real* y) const = 0;
  /// dx (+)= dy gelu'(x); dx may be dy.
  virtual void GeluBackward(std::int64_t size, const Real* x, const Real* dy, bool add,
                            Real* dx) const = 0;
  /// max(0, x)^2, and the same of its backward.
  virtual void SquaredRelu(std::int64_t size, const Real* x, Real* y) const = 0;
  virtual void SquaredReluBackward(std::int64_t size, const Real* x, const Real* dy, bool add,
                                   Real* dx) const = 0;

  virtual std::int64_t AttentionWorkspace(const AttentionShape& shape) const = 0;
  /// y (rows, width) of x (rows, 3 width). log_sums (sequences, heads, tokens): logarithms of the
  /// softmaxes' denominators.
  virtual void Attention(const AttentionShape& shape, const Real* x, Real* y, Real* log_sums,
                         Real* workspace) const = 0;
  virtual void AttentionBackward(const AttentionShape& shape, const Real* x, const Real* log_sums,
                                 const Real* dy, Real* dx, Real* workspace) const = 0;

  /// p (rows, classes) = softmax of each row of z; losses[r] = -log p[r][labels[r]]; correct[r] = 1
  /// where the row's first largest element is the label's, else 0.
  virtual void CrossEntropy(std::int64_t rows, std::int64_t classes, const Real* z,
                            const std::int32_t* labels, Real* p, Real* losses,
                            std::uint8_t* correct) const = 0;
};

/// Plain loops; Real is float or double.
template <class Real>
std::shared_ptr<const Backend<Real>> MakeReferenceBackend();

/// Vector loops in blocks of kBlock, and convolutions by `method`, which is not kReference.
std::shared_ptr<const Backend<float>> MakeVectorBackend(
    ConvolutionMethod method = ConvolutionMethod::kWinograd);

/// Which vectors its kernels use here: "AVX-512", or Highway's name of narrower ones, "AVX2". Both give the same
/// bits; what has neither fuses no products and sums, and rounds otherwise.
std::string VectorInstructions();

}  // namespace batchless::training

// Example
//   const std::shared_ptr<const Backend<float>> plain = MakeReferenceBackend<float>();
//   const std::shared_ptr<const Backend<float>> vectors = MakeVectorBackend();
//   CHECK(plain->block() == 1);
//   CHECK(vectors->block() == kBlock);
//   const std::vector<float> x = {1, 2}, y = {3, 4};
//   std::vector<float> sum(2);
//   plain->Add(2, x.data(), y.data(), sum.data());
//   CHECK(sum == std::vector<float>{4, 6});
