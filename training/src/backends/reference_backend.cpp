// Plain loops over plain (n, c, h, w) tensors, written to be read beside the equations.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "backends/blocked_weights.h"
#include "batchless/training/backend.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;

template <class Real>
class ReferenceConvolution final : public Convolution<Real> {
 public:
  explicit ReferenceConvolution(const ConvolutionShape& shape)
      : Convolution<Real>(BlockedWeights(shape)), n_(shape.microbatch), layer_(shape.layer) {}

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
    const std::int64_t size = this->weight_tensor().stored_size;
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
class ReferenceBackend final : public Backend<Real> {
 public:
  int block() const override { return 1; }

  std::unique_ptr<Convolution<Real>> MakeConvolution(const ConvolutionShape& shape) const override {
    return std::make_unique<ReferenceConvolution<Real>>(shape);
  }

  void NormalizationStatistics(const NormalizationShape& shape, const Real* x, const Real* gamma,
                               const Real* beta,
                               const ChannelConstants<Real>& constants) const override {
    const int width = shape.group_width();
    const auto count = static_cast<double>(width * shape.samples_in_set() * shape.pixels);
    for (std::int64_t set = 0; set < shape.sets(); ++set) {
      for (int first = 0; first < shape.channels; first += width) {
        const int last = first + width;
        double sum = 0;
        ForEachElement(shape, set, first, last, [&](std::int64_t i, int) { sum += x[i]; });
        const double mean = sum / count;
        double squares = 0;
        ForEachElement(shape, set, first, last,
                       [&](std::int64_t i, int) { squares += (x[i] - mean) * (x[i] - mean); });
        const double inverse = 1 / std::sqrt(squares / count + kNormalizationEpsilon);
        for (int c = first; c < last; ++c) {
          const std::int64_t k = set * shape.channels + c;
          constants.mean[k] = static_cast<Real>(mean);
          constants.inverse_standard_deviation[k] = static_cast<Real>(inverse);
          constants.scale[k] = static_cast<Real>(gamma[c] * inverse);
          constants.shift[k] = static_cast<Real>(beta[c] - gamma[c] * inverse * mean);
        }
      }
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
    const int width = shape.group_width();
    const auto count = static_cast<double>(width * shape.samples_in_set() * shape.pixels);
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
      for (int first = 0; first < shape.channels; first += width) {
        const int last = first + width;
        double sum = 0;        // of gamma dy
        double sum_x_hat = 0;  // of gamma dy x_hat
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
        });
        for (int c = first; c < last; ++c) {
          sum += double{g.gamma[c]} * dbeta[c - first];
          sum_x_hat += double{g.gamma[c]} * dgamma[c - first];
          g.dgamma[c] += static_cast<Real>(dgamma[c - first]);
          g.dbeta[c] += static_cast<Real>(dbeta[c - first]);
        }
        if (g.dx == nullptr) continue;
        ForEachElement(shape, set, first, last, [&](std::int64_t i, int c) {
          const std::int64_t k = set * shape.channels + c;
          const double dx = double{constants.inverse_standard_deviation[k]} *
                            (double{g.gamma[c]} * double{rectified(i, k)} - sum / count -
                             x_hat(i, k) * sum_x_hat / count);
          g.dx[i] = static_cast<Real>((g.add_dx ? double{g.dx[i]} : 0.0) + dx);
        });
      }
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

  // --- sequences; the equations are those of layer.h ---

  std::int64_t ProductWorkspace(std::int64_t /*rows*/, std::int64_t /*columns*/,
                                std::int64_t /*steps*/) const override {
    return 0;
  }

  void Multiply(const Product<Real>& p, Real* /*workspace*/) const override {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t n = 0; n < p.columns; ++n) {
        double sum = p.bias == nullptr ? 0.0 : double{p.bias[n]};
        for (std::int64_t k = 0; k < p.steps; ++k) {
          sum += double{p.a[r * p.a_row + k * p.a_step]} * p.b[k * p.b_step + n * p.b_column];
        }
        Real& c = p.c[r * p.c_row + n];
        c = static_cast<Real>(p.add ? c + sum : sum);
      }
    }
  }

  void SumRows(std::int64_t rows, std::int64_t columns, const Real* y, bool add,
               Real* sums) const override {
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += y[r * columns + c];
      sums[c] = static_cast<Real>(add ? sums[c] + sum : sum);
    }
  }

  void RowStatistics(const RowNormalization<Real>& norm) const override {
    const auto width = static_cast<double>(norm.width);
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      const Real* x = norm.x + r * norm.width;
      double sum = 0;
      for (std::int64_t c = 0; norm.is_centered && c < norm.width; ++c) sum += x[c];
      const double mean = sum / width;
      double squares = 0;
      for (std::int64_t c = 0; c < norm.width; ++c) squares += (x[c] - mean) * (x[c] - mean);
      norm.mean[r] = static_cast<Real>(mean);
      norm.inverse_standard_deviation[r] =
          static_cast<Real>(1 / std::sqrt(squares / width + kNormalizationEpsilon));
    }
  }

  void NormalizeRows(const RowNormalization<Real>& norm, const Real* gamma, const Real* beta,
                     Real* y) const override {
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      for (std::int64_t c = 0; c < norm.width; ++c) {
        y[r * norm.width + c] = static_cast<Real>(gamma[c] * Normalized(norm, r, c) +
                                                  (beta == nullptr ? 0.0 : double{beta[c]}));
      }
    }
  }

  // With g = dy gamma:  dx = inverse (g - mean(g) - x_hat mean(g x_hat)), mean(g) where it is centred.
  void NormalizeRowsBackward(const RowNormalization<Real>& norm, const Real* gamma, const Real* dy,
                             bool add_dx, Real* dx, bool add_gradient, Real* dgamma,
                             Real* dbeta) const override {
    const std::int64_t width = norm.width;
    for (std::int64_t c = 0; c < width; ++c) {
      double scale = add_gradient ? double{dgamma[c]} : 0.0;
      double shift = add_gradient && dbeta != nullptr ? double{dbeta[c]} : 0.0;
      for (std::int64_t r = 0; r < norm.rows; ++r) {
        scale += dy[r * width + c] * Normalized(norm, r, c);
        shift += dy[r * width + c];
      }
      dgamma[c] = static_cast<Real>(scale);
      if (dbeta != nullptr) dbeta[c] = static_cast<Real>(shift);
    }
    if (dx == nullptr) return;
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      double sum = 0;
      double sum_x_hat = 0;
      for (std::int64_t c = 0; c < width; ++c) {
        const double g = double{dy[r * width + c]} * gamma[c];
        if (norm.is_centered) sum += g;
        sum_x_hat += g * Normalized(norm, r, c);
      }
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t i = r * width + c;
        const double g = double{dy[i]} * gamma[c];
        const double gradient =
            norm.inverse_standard_deviation[r] *
            (g - (sum + Normalized(norm, r, c) * sum_x_hat) / static_cast<double>(width));
        dx[i] = static_cast<Real>(add_dx ? dx[i] + gradient : gradient);
      }
    }
  }

  void Gelu(std::int64_t size, const Real* x, Real* y) const override {
    for (std::int64_t i = 0; i < size; ++i) {
      y[i] = static_cast<Real>(x[i] / 2 * (1 + std::tanh(GeluArgument(x[i]))));
    }
  }

  void GeluBackward(std::int64_t size, const Real* x, const Real* dy, bool add,
                    Real* dx) const override {
    for (std::int64_t i = 0; i < size; ++i) {
      const double u = x[i];
      const double t = std::tanh(GeluArgument(u));
      const double slope = kRootTwoOverPi * (1 + 3 * kGeluCubic * u * u);
      const double gradient = dy[i] * ((1 + t) / 2 + u / 2 * (1 - t * t) * slope);
      dx[i] = static_cast<Real>(add ? dx[i] + gradient : gradient);
    }
  }

  void SquaredRelu(std::int64_t size, const Real* x, Real* y) const override {
    for (std::int64_t i = 0; i < size; ++i) {
      const Real u = std::max(x[i], Real(0));
      y[i] = u * u;
    }
  }

  void SquaredReluBackward(std::int64_t size, const Real* x, const Real* dy, bool add,
                           Real* dx) const override {
    for (std::int64_t i = 0; i < size; ++i) {
      const Real gradient = dy[i] * 2 * std::max(x[i], Real(0));
      dx[i] = add ? dx[i] + gradient : gradient;
    }
  }

  std::int64_t AttentionWorkspace(const AttentionShape& shape) const override {
    return 2 * shape.tokens;
  }

  void Attention(const AttentionShape& shape, const Real* x, Real* y, Real* log_sums,
                 Real* workspace) const override {
    ForEachQuery(shape, x, [&](std::int64_t query, const Head& q, std::int64_t t, std::int64_t at) {
      Real* scores = workspace;
      double most = -1e300;
      for (std::int64_t s = 0; s <= t; ++s) {
        scores[s] = static_cast<Real>(Scale(shape) * Dot(shape, q.At(t, 0), q.At(s, 1)));
        most = std::max(most, double{scores[s]});
      }
      double sum = 0;
      for (std::int64_t s = 0; s <= t; ++s) sum += std::exp(scores[s] - most);
      log_sums[query] = static_cast<Real>(most + std::log(sum));
      for (std::int64_t c = 0; c < shape.head_width; ++c) {
        double value = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          value += std::exp(scores[s] - most) / sum * q.At(s, 2)[c];
        }
        y[at + c] = static_cast<Real>(value);
      }
    });
  }

  // With P the softmax and dP = dy v':  ds = P (dP - sum of P dP), dq = ds k, dk = ds' q, dv = P' dy.
  void AttentionBackward(const AttentionShape& shape, const Real* x, const Real* log_sums,
                         const Real* dy, Real* dx, Real* workspace) const override {
    std::fill_n(dx, shape.rows() * 3 * shape.width(), Real(0));
    ForEachQuery(shape, x, [&](std::int64_t query, const Head& q, std::int64_t t, std::int64_t at) {
      const double log_sum = log_sums[query];
      const Real* out = dy + at;
      Real* p = workspace;
      Real* dp = workspace + shape.tokens;
      double sum = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        p[s] = static_cast<Real>(
            std::exp(Scale(shape) * Dot(shape, q.At(t, 0), q.At(s, 1)) - log_sum));
        dp[s] = static_cast<Real>(Dot(shape, out, q.At(s, 2)));
        sum += double{p[s]} * dp[s];
      }
      const auto gradient = [&](std::int64_t token, std::int64_t part) {
        return dx + (q.At(token, part) - x);
      };
      for (std::int64_t s = 0; s <= t; ++s) {
        const auto ds = static_cast<Real>(Scale(shape) * p[s] * (dp[s] - sum));
        for (std::int64_t c = 0; c < shape.head_width; ++c) {
          gradient(t, 0)[c] += ds * q.At(s, 1)[c];
          gradient(s, 1)[c] += ds * q.At(t, 0)[c];
          gradient(s, 2)[c] += p[s] * out[c];
        }
      }
    });
  }

  void CrossEntropy(std::int64_t rows, std::int64_t classes, const Real* z,
                    const std::int32_t* labels, Real* p, Real* losses,
                    std::uint8_t* correct) const override {
    for (std::int64_t r = 0; r < rows; ++r, z += classes, p += classes) {
      const std::int64_t best = std::max_element(z, z + classes) - z;
      double sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(double{z[c]} - z[best]);
      for (std::int64_t c = 0; c < classes; ++c) {
        p[c] = static_cast<Real>(std::exp(double{z[c]} - z[best]) / sum);
      }
      losses[r] = static_cast<Real>(std::log(sum) + (double{z[best]} - z[labels[r]]));
      correct[r] = best == labels[r] ? 1 : 0;
    }
  }

 private:
  // visit(position, channel) for the elements of channels from `first` to last - 1 in the samples of a set.
  template <class Visit>
  static void ForEachElement(const NormalizationShape& shape, std::int64_t set, int first, int last,
                             Visit visit) {
    for (std::int64_t sample = set; sample < set + shape.samples_in_set(); ++sample) {
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

  static constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double kGeluCubic = 0.044715;

  static double GeluArgument(double x) { return kRootTwoOverPi * (x + kGeluCubic * x * x * x); }

  static double Normalized(const RowNormalization<Real>& norm, std::int64_t r, std::int64_t c) {
    return (double{norm.x[r * norm.width + c]} - norm.mean[r]) *
           double{norm.inverse_standard_deviation[r]};
  }

  // One head of a sequence: queries, keys and values are parts 0, 1, 2.
  struct Head {
    const Real* x;
    std::int64_t width;

    const Real* At(std::int64_t token, std::int64_t part) const {
      return x + (3 * token + part) * width;
    }
  };

  static double Scale(const AttentionShape& shape) {
    return 1 / std::sqrt(static_cast<double>(shape.head_width));
  }

  static double Dot(const AttentionShape& shape, const Real* a, const Real* b) {
    double sum = 0;
    for (std::int64_t c = 0; c < shape.head_width; ++c) sum += double{a[c]} * b[c];
    return sum;
  }

  // visit(number of the query, its head, its token, where its result begins in (rows, width)).
  template <class Visit>
  static void ForEachQuery(const AttentionShape& shape, const Real* x, Visit visit) {
    const std::int64_t width = shape.width();
    std::int64_t query = 0;
    for (std::int64_t first = 0; first < shape.rows(); first += shape.tokens) {
      for (std::int64_t channel = 0; channel < width; channel += shape.head_width) {
        const Head head{x + first * 3 * width + channel, width};
        for (std::int64_t t = 0; t < shape.tokens; ++t) {
          visit(query++, head, t, (first + t) * width + channel);
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
