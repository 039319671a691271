#include "step_down.h"

#include <algorithm>
#include <cmath>

namespace batchless::analysis {

using Eigen::Index;

StepDown::StepDown(Index delay, Index order) : order_(order), degree_(delay + order) {
  rows_.setZero(degree_ + 1, degree_ + 1);
  responses_ = rows_;
}

template <class Function>
void StepDown::AtEnds(Index m, Function&& f) const {
  const Index head = std::min(order_ + 1, m);
  for (Index i = 0; i < head; ++i) f(i);
  for (Index i = std::max(head, m - order_); i < m; ++i) f(i);
}

bool StepDown::Down(const Vector& a, const Vector& b, const Vector& response) {
  responds_ = response.size() > 0;
  energy_ = 0;
  rows_.col(degree_).setZero();
  rows_.col(degree_).head(order_ + 1) = a;
  rows_.col(degree_).tail(order_) += b;
  if (responds_) responses_.col(degree_).tail(order_) = response;
  for (Index m = degree_; m > 0; --m) {
    const Real* row = rows_.col(m).data();
    Real* next = rows_.col(m - 1).data();
    const Real k = row[m] / row[0];
    AtEnds(m, [&](Index i) { next[i] = row[i] - k * row[m - i]; });
    // The negation lets no NaN pass.
    if (!(next[0] > 0)) return false;
    if (!responds_) continue;
    const Real* respond = responses_.col(m).data();
    Real* next_respond = responses_.col(m - 1).data();
    const Real c = respond[m] / row[0];
    energy_ += c * respond[m];
    AtEnds(m, [&](Index i) { next_respond[i] = respond[i] - c * row[m - i]; });
  }
  if (responds_) energy_ += responses_(0, 0) * responses_(0, 0) / rows_(0, 0);
  return true;
}

StepDown::Real StepDown::log_barrier() const { return -std::log(rows_(0, 0)); }

StepDown::Gradient StepDown::Up(Real by_barrier, Real by_energy) const {
  // Derivatives by the coefficients at degree m - 1 and at degree m.
  Vector by = Vector::Zero(degree_ + 1), above = by, by_response = by;
  const Real last = responds_ ? responses_(0, 0) / rows_(0, 0) : 0;
  by[0] = -by_barrier / rows_(0, 0) - by_energy * last * last;
  by_response[0] = 2 * by_energy * last;
  for (Index m = 1; m <= degree_; ++m) {
    const Real* row = rows_.col(m).data();
    const Real k = row[m] / row[0];
    AtEnds(m, [&](Index i) { above[i] = by[i]; });
    above[m] = 0;
    Real by_k = 0;
    AtEnds(m, [&](Index i) {
      by_k -= by[i] * row[m - i];
      above[m - i] -= k * by[i];
    });
    above[m] += by_k / row[0];
    above[0] -= by_k * k / row[0];
    if (responds_) {
      const Real c = responses_(m, m) / row[0];
      Real by_c = 0;
      AtEnds(m, [&](Index i) {
        by_c -= by_response[i] * row[m - i];
        above[m - i] -= c * by_response[i];
      });
      by_response[m] = by_c / row[0] + 2 * by_energy * c;
      above[0] -= by_c * c / row[0] + by_energy * c * c;
    }
    by.swap(above);
  }
  return {by.head(order_ + 1), by.tail(order_), by_response.tail(order_)};
}

}  // namespace batchless::analysis
