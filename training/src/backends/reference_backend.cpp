// Plain loops over plain (n, c, h, w) tensors, written to be read beside the equations.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/reference_tokens.h"
#include "batchless/training/backend.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;
using hwmodel::Normalization;

template <class Real>
class ReferenceConvolution final : public Convolution<Real> {
 public:
  explicit ReferenceConvolution(const ConvolutionShape& shape)
      : n_(shape.microbatch), layer_(shape.layer) {}

  ParameterTensor weight_tensor() const override {
    const std::int64_t in = layer_.input.channels;
    const std::int64_t out = layer_.output.channels;
    const std::int64_t k = layer_.kernel;
    ParameterTensor tensor;
    tensor.shape = {out, in, k, k};
    tensor.sizes = {out, in, k, k};
    tensor.order.out_outer = in * k * k;
    tensor.order.in_outer = k * k;
    tensor.order.height = k;
    tensor.order.width = 1;
    tensor.stored_size = out * in * k * k;
    return tensor;
  }

  std::int64_t workspace_size() const override { return 0; }

  void Forward(const Real* x, const Real* weights, const Real* bias, Real* y, Real* /*workspace*/,
               Prefetcher* /*ahead*/) override {
    for (std::int64_t sample = 0; sample < n_; ++sample) {
      for (int o = 0; o < layer_.output.channels; ++o) {
        Real* plane = y + (sample * layer_.output.channels + o) * layer_.output.pixels();
        std::fill_n(plane, layer_.output.pixels(), bias == nullptr ? Real(0) : bias[o]);
      }
    }
    ForEachProduct(
        [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { y[yi] += x[xi] * weights[wi]; });
  }

  void BackwardInput(const Real* dy, const Real* weights, Real* dx, Real* /*workspace*/,
                     Prefetcher* /*ahead*/) override {
    std::fill_n(dx, n_ * layer_.input.elements(), Real(0));
    ForEachProduct(
        [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { dx[xi] += dy[yi] * weights[wi]; });
  }

  void BackwardWeights(const Real* x, const Real* dy, Real* dw, Real* /*workspace*/,
                       Prefetcher* /*ahead*/, GradientConsumer<Real>* consumer) override {
    const std::int64_t size = weight_tensor().stored_size;
    std::fill_n(dw, size, Real(0));
    ForEachProduct(
        [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { dw[wi] += x[xi] * dy[yi]; });
    if (consumer != nullptr) consumer->Take(0, size, dw);
  }

 private:
  // visit(position in x, in the weights, in y) for every product of the convolution.
  template <class Visit>
  void ForEachProduct(Visit visit) const {
    const hwmodel::FeatureShape& in = layer_.input;
    const hwmodel::FeatureShape& out = layer_.output;
    const int k = layer_.kernel;
    for (std::int64_t sample = 0; sample < n_; ++sample) {
      for (int o = 0; o < out.channels; ++o) {
        for (int i = 0; i < in.channels; ++i) {
          for (int kh = 0; kh < k; ++kh) {
            for (int kw = 0; kw < k; ++kw) {
              const std::int64_t wi = ((std::int64_t{o} * in.channels + i) * k + kh) * k + kw;
              for (int oh = 0; oh < out.height; ++oh) {
                const int ih = oh * layer_.stride + kh - layer_.padding;
                if (ih < 0 || ih >= in.height) continue;
                for (int ow = 0; ow < out.width; ++ow) {
                  const int iw = ow * layer_.stride + kw - layer_.padding;
                  if (iw < 0 || iw >= in.width) continue;
                  visit(((sample * in.channels + i) * in.height + ih) * in.width + iw, wi,
                        ((sample * out.channels + o) * out.height + oh) * out.width + ow);
                }
              }
            }
          }
        }
      }
    }
  }

  std::int64_t n_;
  Layer layer_;
};

template <class Real>
class ReferenceBackend final : public ReferenceTokens<Real> {
 public:
  int block() const override { return 1; }

  std::unique_ptr<Convolution<Real>> MakeConvolution(const ConvolutionShape& shape) const override {
    return std::make_unique<ReferenceConvolution<Real>>(shape);
  }

  void NormalizationStatistics(const NormalizationShape& shape, const Real* x, const Real* gamma,
                               const Real* beta,
                               const ChannelConstants<Real>& constants) const override {
    for (std::int64_t set = 0; set < shape.sets(); ++set) {
      ForEachGroup(shape, [&](int first, int last) {
        double sum = 0;
        std::int64_t count = 0;
        ForEachElement(shape, set, first, last, [&](std::int64_t i, int) {
          sum += x[i];
          ++count;
        });
        const double mean = sum / static_cast<double>(count);
        double squares = 0;
        ForEachElement(shape, set, first, last,
                       [&](std::int64_t i, int) { squares += (x[i] - mean) * (x[i] - mean); });
        const double inverse =
            1 / std::sqrt(squares / static_cast<double>(count) + kNormalizationEpsilon);
        for (int c = first; c < last; ++c) {
          const std::int64_t k = set * shape.channels + c;
          constants.mean[k] = static_cast<Real>(mean);
          constants.inverse_standard_deviation[k] = static_cast<Real>(inverse);
          constants.scale[k] = static_cast<Real>(gamma[c] * inverse);
          constants.shift[k] = static_cast<Real>(beta[c] - gamma[c] * inverse * mean);
        }
      });
    }
  }

  void NormalizedRelu(const NormalizationShape& shape, const Real* x,
                      const ChannelConstants<Real>& constants, Real* h) const override {
    for (std::int64_t set = 0; set < shape.sets(); ++set) {
      ForEachElement(shape, set, 0, shape.channels, [&](std::int64_t i, int c) {
        const std::int64_t k = set * shape.channels + c;
        const Real normalized =
            constants.scale == nullptr ? x[i] : constants.scale[k] * x[i] + constants.shift[k];
        // Whose order lets what is no number through.
        h[i] = shape.rectifies ? std::max(normalized, Real(0)) : normalized;
      });
    }
  }

  void NormalizedReluBackward(
      const NormalizationShape& shape,
      const typename Backend<Real>::NormalizationGradient& g) const override {
    const ChannelConstants<const Real>& constants = g.constants;
    const auto rectified = [&](std::int64_t i, std::int64_t k) {
      const Real normalized =
          constants.scale == nullptr ? g.x[i] : constants.scale[k] * g.x[i] + constants.shift[k];
      if (shape.rectifies && !(normalized > 0)) return Real(0);
      return g.dh_extra == nullptr ? g.dh[i] : g.dh[i] + g.dh_extra[i];
    };
    if (constants.scale == nullptr) {
      if (g.dx == nullptr) return;
      for (std::int64_t set = 0; set < shape.sets(); ++set) {
        ForEachElement(shape, set, 0, shape.channels, [&](std::int64_t i, int) {
          g.dx[i] = (g.add_dx ? g.dx[i] : Real(0)) + rectified(i, 0);
        });
      }
      return;
    }
    if (!g.add_gradient) {
      std::fill_n(g.dgamma, shape.channels, Real(0));
      std::fill_n(g.dbeta, shape.channels, Real(0));
    }
    for (std::int64_t set = 0; set < shape.sets(); ++set) {
      ForEachGroup(shape, [&](int first, int last) {
        double sum = 0;        // of gamma dy
        double sum_x_hat = 0;  // of gamma dy x_hat
        std::int64_t count = 0;
        std::vector<double> dgamma(last - first);
        std::vector<double> dbeta(last - first);
        const auto x_hat = [&](std::int64_t i, std::int64_t k) {
          return (double{g.x[i]} - double{constants.mean[k]}) *
                 double{constants.inverse_standard_deviation[k]};
        };
        ForEachElement(shape, set, first, last, [&](std::int64_t i, int c) {
          const std::int64_t k = set * shape.channels + c;
          const double dy = rectified(i, k);
          dbeta[c - first] += dy;
          dgamma[c - first] += dy * x_hat(i, k);
          ++count;
        });
        for (int c = first; c < last; ++c) {
          sum += double{g.gamma[c]} * dbeta[c - first];
          sum_x_hat += double{g.gamma[c]} * dgamma[c - first];
          g.dgamma[c] += static_cast<Real>(dgamma[c - first]);
          g.dbeta[c] += static_cast<Real>(dbeta[c - first]);
        }
        if (g.dx == nullptr) return;
        const double n = static_cast<double>(count);
        ForEachElement(shape, set, first, last, [&](std::int64_t i, int c) {
          const std::int64_t k = set * shape.channels + c;
          const double dx = double{constants.inverse_standard_deviation[k]} *
                            (double{g.gamma[c]} * double{rectified(i, k)} - sum / n -
                             x_hat(i, k) * sum_x_hat / n);
          g.dx[i] = static_cast<Real>((g.add_dx ? double{g.dx[i]} : 0.0) + dx);
        });
      });
    }
  }

  void Add(std::int64_t size, const Real* a, const Real* b, Real* sum) const override {
    for (std::int64_t i = 0; i < size; ++i) sum[i] = a[i] + b[i];
  }

  void BiasGradient(const NormalizationShape& shape, const Real* dy, bool add,
                    Real* sums) const override {
    if (!add) std::fill_n(sums, shape.channels, Real(0));
    for (std::int64_t sample = 0; sample < shape.microbatch; ++sample) {
      for (int c = 0; c < shape.channels; ++c) {
        const Real* plane = dy + (sample * shape.channels + c) * shape.pixels;
        double sum = 0;
        for (std::int64_t p = 0; p < shape.pixels; ++p) sum += plane[p];
        sums[c] += static_cast<Real>(sum);
      }
    }
  }

  void MaxPool(const PoolShape& shape, const Real* x, Real* y,
               std::uint8_t* winners) const override {
    const Layer& l = shape.layer;
    ForEachWindow(
        shape,
        [&](const Real* plane, std::int64_t out, int top, int left) {
          bool found = false;
          for (int kh = 0; kh < l.kernel; ++kh) {
            for (int kw = 0; kw < l.kernel; ++kw) {
              const int h = top + kh;
              const int w = left + kw;
              if (h < 0 || w < 0 || h >= l.input.height || w >= l.input.width) continue;
              const Real value = plane[h * l.input.width + w];
              if (found && !(value > y[out])) continue;
              found = true;
              y[out] = value;
              winners[out] = static_cast<std::uint8_t>(kh * l.kernel + kw);
            }
          }
        },
        x);
  }

  void MaxPoolBackward(const PoolShape& shape, const std::uint8_t* winners, const Real* dy,
                       Real* dx) const override {
    const Layer& l = shape.layer;
    std::fill_n(dx, shape.microbatch * l.input.elements(), Real(0));
    ForEachWindow(
        shape,
        [&](Real* plane, std::int64_t out, int top, int left) {
          const int h = top + winners[out] / l.kernel;
          const int w = left + winners[out] % l.kernel;
          plane[h * l.input.width + w] += dy[out];
        },
        dx);
  }

  void AveragePool(const PoolShape& shape, const Real* x, Real* y) const override {
    const std::int64_t pixels = shape.layer.input.pixels();
    const std::int64_t planes = std::int64_t{shape.microbatch} * shape.layer.input.channels;
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      double sum = 0;
      for (std::int64_t p = 0; p < pixels; ++p) sum += x[plane * pixels + p];
      y[plane] = static_cast<Real>(sum / static_cast<double>(pixels));
    }
  }

  void AveragePoolBackward(const PoolShape& shape, const Real* dy, Real* dx) const override {
    const std::int64_t pixels = shape.layer.input.pixels();
    const std::int64_t planes = std::int64_t{shape.microbatch} * shape.layer.input.channels;
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      std::fill_n(dx + plane * pixels, pixels, dy[plane] / static_cast<Real>(pixels));
    }
  }

  void Linear(std::int64_t n, std::int64_t in, std::int64_t out, const Real* x, const Real* w,
              const Real* b, Real* y) const override {
    for (std::int64_t sample = 0; sample < n; ++sample) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = b[o];
        for (std::int64_t i = 0; i < in; ++i) sum += double{x[sample * in + i]} * w[o * in + i];
        y[sample * out + o] = static_cast<Real>(sum);
      }
    }
  }

  void LinearBackwardInput(std::int64_t n, std::int64_t in, std::int64_t out, const Real* dy,
                           const Real* w, Real* dx) const override {
    std::fill_n(dx, n * in, Real(0));
    for (std::int64_t sample = 0; sample < n; ++sample) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          dx[sample * in + i] += dy[sample * out + o] * w[o * in + i];
        }
      }
    }
  }

  void LinearBackwardWeights(std::int64_t n, std::int64_t in, std::int64_t out, const Real* x,
                             const Real* dy, bool add, Real* dw, Real* db) const override {
    if (!add) {
      std::fill_n(dw, in * out, Real(0));
      std::fill_n(db, out, Real(0));
    }
    for (std::int64_t sample = 0; sample < n; ++sample) {
      for (std::int64_t o = 0; o < out; ++o) {
        const Real gradient = dy[sample * out + o];
        db[o] += gradient;
        for (std::int64_t i = 0; i < in; ++i) dw[o * in + i] += gradient * x[sample * in + i];
      }
    }
  }

 private:
  // visit(first channel, one past the last) of every set that shares its statistics.
  template <class Visit>
  static void ForEachGroup(const NormalizationShape& shape, Visit visit) {
    const int width = shape.kind == Normalization::kGroup ? shape.channels / shape.groups : 1;
    for (int c = 0; c < shape.channels; c += width) visit(c, c + width);
  }

  // visit(position, channel) for the elements of a set of channels: of one sample with group
  // normalisation, of all samples otherwise.
  template <class Visit>
  static void ForEachElement(const NormalizationShape& shape, std::int64_t set, int first, int last,
                             Visit visit) {
    const bool one = shape.kind == Normalization::kGroup;
    const std::int64_t begin = one ? set : 0;
    const std::int64_t end = one ? set + 1 : shape.microbatch;
    for (std::int64_t sample = begin; sample < end; ++sample) {
      for (int c = first; c < last; ++c) {
        const std::int64_t start = (sample * shape.channels + c) * shape.pixels;
        for (std::int64_t p = 0; p < shape.pixels; ++p) visit(start + p, c);
      }
    }
  }

  // visit(plane of `planes`, position of the output, top and left of its window).
  template <class Visit, class T>
  static void ForEachWindow(const PoolShape& shape, Visit visit, T* planes) {
    const Layer& l = shape.layer;
    std::int64_t out = 0;
    const std::int64_t count = std::int64_t{shape.microbatch} * l.input.channels;
    for (std::int64_t plane = 0; plane < count; ++plane) {
      for (int h = 0; h < l.output.height; ++h) {
        for (int w = 0; w < l.output.width; ++w) {
          visit(planes + plane * l.input.pixels(), out++, h * l.stride - l.padding,
                w * l.stride - l.padding);
        }
      }
    }
  }
};

}  // namespace

template <class Real>
std::shared_ptr<const Backend<Real>> MakeReferenceBackend() {
  return std::make_shared<ReferenceBackend<Real>>();
}

template std::shared_ptr<const Backend<float>> MakeReferenceBackend();
template std::shared_ptr<const Backend<double>> MakeReferenceBackend();

}  // namespace batchless::training
