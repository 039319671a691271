// Ball arithmetic (Arb): numbers with bounds of their own error, rigorous at any precision.
#pragma once

#include <arb.h>

namespace batchless::analysis::ball {

/// Bits of every operation; raised where a sign does not come out.
inline thread_local slong precision = 128;

class Ball {
 public:
  Ball() { arb_init(x_); }
  Ball(double value) : Ball() { arb_set_d(x_, value); }  // NOLINT: numbers are balls
  Ball(const Ball& other) : Ball() { arb_set(x_, other.x_); }
  Ball(Ball&& other) noexcept : Ball() { arb_swap(x_, other.x_); }
  Ball& operator=(const Ball& other) {
    arb_set(x_, other.x_);
    return *this;
  }
  Ball& operator=(Ball&& other) noexcept {
    arb_swap(x_, other.x_);
    return *this;
  }
  ~Ball() { arb_clear(x_); }

  arb_ptr get() { return x_; }
  arb_srcptr get() const { return x_; }

  bool positive() const { return arb_is_positive(x_) != 0; }
  bool negative() const { return arb_is_negative(x_) != 0; }
  /// Whether the sign is certain; an exact 0 has one.
  bool decided() const { return positive() || negative() || arb_is_zero(x_) != 0; }

  friend Ball operator+(const Ball& a, const Ball& b) { return Of(arb_add, a, b); }
  friend Ball operator-(const Ball& a, const Ball& b) { return Of(arb_sub, a, b); }
  friend Ball operator*(const Ball& a, const Ball& b) { return Of(arb_mul, a, b); }
  friend Ball operator/(const Ball& a, const Ball& b) { return Of(arb_div, a, b); }

 private:
  template <class F>
  static Ball Of(F f, const Ball& a, const Ball& b) {
    Ball c;
    f(c.x_, a.x_, b.x_, precision);
    return c;
  }

  arb_t x_;
};

template <class F>
Ball Apply(F f, const Ball& a) {
  Ball c;
  f(c.get(), a.get(), precision);
  return c;
}
inline Ball Abs(const Ball& a) {
  Ball c;
  arb_abs(c.get(), a.get());
  return c;
}
inline Ball Exp(const Ball& a) { return Apply(arb_exp, a); }
inline Ball Expm1(const Ball& a) { return Apply(arb_expm1, a); }
inline Ball Log1p(const Ball& a) { return Apply(arb_log1p, a); }
inline Ball Sqrt(const Ball& a) { return Apply(arb_sqrt, a); }
inline Ball Acos(const Ball& a) { return Apply(arb_acos, a); }
inline Ball Atan2(const Ball& y, const Ball& x) {
  Ball c;
  arb_atan2(c.get(), y.get(), x.get(), precision);
  return c;
}
inline Ball Pi() {
  Ball c;
  arb_const_pi(c.get(), precision);
  return c;
}

/// The one integer that x is nearest to everywhere in the ball; false where there are two.
inline bool NearestInteger(const Ball& x, long& nearest) {
  const Ball low = Apply(arb_floor, x + Ball(0.5));
  fmpz_t integer;
  fmpz_init(integer);
  const bool unique = arb_get_unique_fmpz(integer, low.get()) != 0;
  nearest = fmpz_get_si(integer);
  fmpz_clear(integer);
  return unique;
}

}  // namespace batchless::analysis::ball
