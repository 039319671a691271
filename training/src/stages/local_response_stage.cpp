// Local response normalisation over the channels c of a pixel, with the window of PyTorch:
//
//   y_c = a_c s_c^-beta,  s_c = k + alpha / n * sum of a_j^2 over j = c - n/2 .. c + (n-1)/2
//   da_c = dy_c s_c^-beta - 2 alpha beta / n * a_c * sum over the j whose window has c of
//          dy_j a_j s_j^(-beta-1)
//
// Krizhevsky, Sutskever and Hinton 2012.
#include <algorithm>
#include <cmath>

#include "stages/stages.h"

namespace batchless::training {
namespace {

template <class Real>
class LocalResponseStage final : public Stage<Real> {
 public:
  explicit LocalResponseStage(const StageParts<Real>& parts)
      : layer_(parts.stage.layers[0]),
        microbatch_(parts.microbatch),
        value_(parts.Input(0)),
        channels_(layer_.input.channels) {
    this->layout_.keeps_input = hwmodel::KeepsInput(parts.stage);
    this->layout_.workspace_size = 3 * Aligned(channels_);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Workspace w = Divide(arguments.workspace);
    // Channels that pad a block stay zero.
    std::fill_n(arguments.outputs[0], microbatch_ * value_.stored_size, Real(0));
    ForEachPixel([&](std::int64_t pixel) {
      Scale(arguments.inputs[0] + pixel, w);
      for (int c = 0; c < channels_; ++c) {
        arguments.outputs[0][pixel + At(c)] =
            static_cast<Real>(w.a[c] * std::pow(w.scale[c], -layer_.beta));
      }
    });
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    const Workspace w = Divide(arguments.workspace);
    const Real* dy = arguments.output_gradients[0];
    Real* dx = arguments.input_gradients[0];
    if (!arguments.add_input_gradients[0]) {
      std::fill_n(dx, microbatch_ * value_.stored_size, Real(0));
    }
    ForEachPixel([&](std::int64_t pixel) {
      Scale(arguments.inputs[0] + pixel, w);
      for (int c = 0; c < channels_; ++c) {
        w.products[c] =
            static_cast<Real>(dy[pixel + At(c)] * w.a[c] * std::pow(w.scale[c], -layer_.beta - 1));
      }
      for (int c = 0; c < channels_; ++c) {
        const double sum = Sum(w.products, c - (layer_.kernel - 1) / 2, c + layer_.kernel / 2);
        dx[pixel + At(c)] +=
            static_cast<Real>(dy[pixel + At(c)] * std::pow(w.scale[c], -layer_.beta) -
                              2 * layer_.beta * factor() * w.a[c] * sum);
      }
    });
  }

 private:
  // Numbers of one pixel, by channel.
  struct Workspace {
    Real* a;
    Real* scale;
    Real* products;
  };

  Workspace Divide(Real* workspace) const {
    return {workspace, workspace + Aligned(channels_), workspace + 2 * Aligned(channels_)};
  }

  double factor() const { return layer_.alpha / layer_.kernel; }

  // Where a channel of a pixel is, from its first one.
  std::int64_t At(int c) const { return value_.At(0, c, 0); }

  template <class Visit>
  void ForEachPixel(Visit visit) const {
    for (std::int64_t sample = 0; sample < microbatch_; ++sample) {
      for (std::int64_t p = 0; p < value_.shape.pixels(); ++p) {
        visit(value_.At(sample, 0, p));
      }
    }
  }

  // The numbers from first to last that there are.
  double Sum(const Real* numbers, int first, int last) const {
    double sum = 0;
    for (int j = std::max(first, 0); j <= std::min(last, channels_ - 1); ++j) sum += numbers[j];
    return sum;
  }

  void Scale(const Real* from, const Workspace& w) const {
    for (int c = 0; c < channels_; ++c) {
      w.a[c] = from[At(c)];
      w.products[c] = w.a[c] * w.a[c];
    }
    for (int c = 0; c < channels_; ++c) {
      const double sum = Sum(w.products, c - layer_.kernel / 2, c + (layer_.kernel - 1) / 2);
      w.scale[c] = static_cast<Real>(layer_.k + factor() * sum);
    }
  }

  hwmodel::Layer layer_;
  std::int64_t microbatch_;
  ValueLayout value_;
  int channels_;
};

}  // namespace

const StageMaker kLocalResponseStage = MakerOf<LocalResponseStage>();

}  // namespace batchless::training
