// The reference backend's functions of sequences: plain loops beside the equations of layer.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "batchless/training/backend.h"

namespace batchless::training {

template <class Real>
class ReferenceTokens : public Backend<Real> {
 public:
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
    const std::int64_t width = shape.width();
    ForEachQuery(shape, [&](std::int64_t first, std::int64_t head, std::int64_t t) {
      const Head q = HeadOf(shape, x, first, head);
      Real& log_sum = log_sums[(first / shape.tokens * shape.heads + head) * shape.tokens + t];
      Real* scores = workspace;
      double most = -1e300;
      for (std::int64_t s = 0; s <= t; ++s) {
        scores[s] = static_cast<Real>(Scale(shape) * Dot(shape, q.At(t, 0), q.At(s, 1)));
        most = std::max(most, double{scores[s]});
      }
      double sum = 0;
      for (std::int64_t s = 0; s <= t; ++s) sum += std::exp(scores[s] - most);
      log_sum = static_cast<Real>(most + std::log(sum));
      Real* out = y + (first + t) * width + head * shape.head_width;
      for (std::int64_t c = 0; c < shape.head_width; ++c) {
        double value = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          value += std::exp(scores[s] - most) / sum * q.At(s, 2)[c];
        }
        out[c] = static_cast<Real>(value);
      }
    });
  }

  // With P the softmax and dP = dy v':  ds = P (dP - sum of P dP), dq = ds k, dk = ds' q, dv = P' dy.
  void AttentionBackward(const AttentionShape& shape, const Real* x, const Real* log_sums,
                         const Real* dy, Real* dx, Real* workspace) const override {
    const std::int64_t width = shape.width();
    std::fill_n(dx, shape.rows() * 3 * width, Real(0));
    ForEachQuery(shape, [&](std::int64_t first, std::int64_t head, std::int64_t t) {
      const Head q = HeadOf(shape, x, first, head);
      const double log_sum =
          log_sums[(first / shape.tokens * shape.heads + head) * shape.tokens + t];
      const Real* out = dy + (first + t) * width + head * shape.head_width;
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

  static Head HeadOf(const AttentionShape& shape, const Real* x, std::int64_t first,
                     std::int64_t head) {
    return {x + first * 3 * shape.width() + head * shape.head_width, shape.width()};
  }

  static double Scale(const AttentionShape& shape) {
    return 1 / std::sqrt(static_cast<double>(shape.head_width));
  }

  static double Dot(const AttentionShape& shape, const Real* a, const Real* b) {
    double sum = 0;
    for (std::int64_t c = 0; c < shape.head_width; ++c) sum += double{a[c]} * b[c];
    return sum;
  }

  // visit(first row of the sequence, head, token).
  template <class Visit>
  static void ForEachQuery(const AttentionShape& shape, Visit visit) {
    for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        for (std::int64_t t = 0; t < shape.tokens; ++t) visit(sequence * shape.tokens, head, t);
      }
    }
  }
};

}  // namespace batchless::training
