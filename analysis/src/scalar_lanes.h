// The root kernel's arithmetic for one number at a time: double, long double or 50 digits.
#pragma once

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <limits>

namespace batchless::analysis {

using FiftyDigits = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<50>,
                                                  boost::multiprecision::et_off>;

// Boost's log and exp read the limits of the same number with expression templates, which it makes at their first
// use, without a lock (1.74): a thread that comes meanwhile finds an epsilon of 0 and adds up terms for minutes, or
// one of 1 and has a wrong logarithm. They are made here before there are threads.
inline const bool kLimitsAreMade = [] {
  using Limits =
      std::numeric_limits<boost::multiprecision::number<boost::multiprecision::cpp_bin_float<50>,
                                                        boost::multiprecision::et_on>>;
  Limits::epsilon();
  Limits::round_error();
  (Limits::min)();
  (Limits::max)();
  Limits::infinity();
  Limits::quiet_NaN();
  return true;
}();

namespace scalar_lanes {

// Functions of double and long double; those of 50 digits are found by their type.
using std::abs;
using std::atan;
using std::cos;
using std::exp;
using std::expm1;
using std::floor;
using std::log;
using std::log1p;
using std::sin;
using std::sqrt;

template <class Real>
struct ScalarLanes {
  using V = Real;
  using M = bool;

  static V Set(double value) { return V(value); }
  static V Pi() { return boost::math::constants::pi<V>(); }
  static V Ln2() { return boost::math::constants::ln_two<V>(); }
  /// Error of one elementary step, in epsilon: library functions are right to about 2 ulp.
  static constexpr int kLibraryUlps = 2;
  static V Unit() { return kLibraryUlps * std::numeric_limits<V>::epsilon(); }
  /// Newton's method ends where the next step would be below rounding; its steps square.
  static V Settled() { return std::numeric_limits<V>::epsilon() / 16; }

  static V Select(M m, const V& yes, const V& no) { return m ? yes : no; }
  static M Lt(const V& a, const V& b) { return a < b; }
  static M And(M a, M b) { return a && b; }
  static M Or(M a, M b) { return a || b; }
  static M Xor(M a, M b) { return a != b; }
  static M Not(M a) { return !a; }
  static bool Any(M a) { return a; }

  static V Min(const V& a, const V& b) { return b < a ? b : a; }
  static V Max(const V& a, const V& b) { return a < b ? b : a; }
  static V Abs(const V& a) { return abs(a); }
  static V Sqrt(const V& a) { return sqrt(a); }
  static V Exp(const V& a) { return exp(a); }
  static V Expm1(const V& a) { return expm1(a); }
  static V Log(const V& a) { return log(a); }
  static V Log1p(const V& a) { return log1p(a); }
  static V Atan(const V& a) { return atan(a); }
  static V Sin(const V& a) { return sin(a); }
  static V Cos(const V& a) { return cos(a); }
  static V Floor(const V& a) { return floor(a); }
  static V Round(const V& a) { return Floor(a + V(0.5)); }
};

}  // namespace scalar_lanes

template <class Real>
using ScalarLanes = scalar_lanes::ScalarLanes<Real>;

}  // namespace batchless::analysis
