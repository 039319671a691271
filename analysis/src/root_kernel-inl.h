// Exact root count and certified dominant root of p(z) = z^n A(z) + x B(z), at a cost that does not
// depend on n. Written once over "lanes": double, long double, 50 digits, and SIMD vectors.
//
//   f = z^n u (u + mu),  g = x (kappa + beta u)(1 + gamma u),  u = z - 1,  z = e^{s + i theta}
//
// Count. On |z| = r, with c = 1 - cos theta in [0, 2],
//   |u|^2              = d^2 + 2 r c                              d = r - 1
//   |u + mu|^2         = (d + mu)^2 + 2 r m c
//   |kappa + beta u|^2 = (kappa + beta d)^2 + 2 r beta (beta - kappa) c
// so F(c) = |f|^2 - |g|^2 is a quadratic: at most two crossings on the half circle, one where f gives
// way to g ("down") and one where g gives way to f ("up"). Between crossings one of the two dominates
// (Rouche) and carries the winding of p; at a crossing the phase difference arg f - arg g, brought
// into (-pi, pi], fixes how many turns separate the two. The turns add up to the number of roots
// inside.
//
// Root. Newton's method on G(zeta) = log(-f/g), zeta = log z = s + i theta, G = R + i W:
//   R = log |f/g|,  W = arg f - arg g - pi,  G' = p + i q,
//   G' = n + z/u + z/(u + mu) - beta z/(kappa + beta u) - gamma z/(1 + gamma u).
// The phases of u and u + mu are taken from the imaginary axis, which cancels pi exactly: W stays
// relatively accurate where s is far smaller than theta.
//
// Certificate. With rounding noise e_R, e_W of one evaluation, |s - exact| is about
// delta = |Re 1/G'| e_R + |Im 1/G'| e_W; a multiple of it is certified by two counts, none outside
// s + delta and at least one outside s - delta, each clear of its own noise.
//
// Source: the count and the certificate are this project's; the polynomials are those of Kosson et
// al., arXiv 2003.11666 (see characteristic.h).

// Included once for each instruction set, so the guard is a toggle.
#if defined(BATCHLESS_ANALYSIS_ROOT_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_ANALYSIS_ROOT_KERNEL_INL_H_
#undef BATCHLESS_ANALYSIS_ROOT_KERNEL_INL_H_
#else
#define BATCHLESS_ANALYSIS_ROOT_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace batchless::analysis {
namespace HWY_NAMESPACE {

template <class L>
struct RootKernel {
  using V = typename L::V;  // one number a lane
  using M = typename L::M;  // one truth value a lane

  /// p(z) in every lane.
  struct Polynomial {
    V n, m, mu, x, kappa, beta, gamma;
    V kappa_size, beta_size;  // what the rounding of kappa and beta is relative to
  };

  /// A root in log z, with what the next point's prediction needs.
  struct Root {
    V s, theta;  // log z = s + i theta
    V p, q;      // G' there
    V delta;     // certified half-width of s
    M certified;
  };

  struct Count {
    V outside;  // roots with |z| > r
    M clear;    // no root within rounding of the circle
    // The place on the circle that looks nearest to a root, and its distance in s.
    V near_theta, near_distance;
  };

  // Constants of the certificate; analysis/certificate.md says what they rest on.
  /// delta is this many times the first-order noise of a root; the counts at s +- delta decide.
  static constexpr double kNoiseFactor = 2;
  /// Roundings of z^n and of the products in f and g, beside those that grow with n |s|.
  static constexpr double kFixedUnits = 2;

  static HWY_INLINE V C(double value) { return L::Set(value); }
  static HWY_INLINE V TwoPi() { return L::Pi() + L::Pi(); }

  /// atan2(y, x), relatively accurate for small angles.
  static HWY_INLINE V Atan2(V y, V x) {
    const V ax = L::Abs(x), ay = L::Abs(y);
    const M steep = L::Lt(ax, ay);
    const V t = L::Select(steep, x, y) / L::Select(steep, y, x);
    const V a = L::Atan(t);
    const V half_pi = L::Pi() * C(0.5);
    const V zero = C(0);
    const M y_negative = L::Lt(y, zero);
    const V from_axis = L::Select(y_negative, zero - half_pi, half_pi) - a;
    const V turn = L::Select(y_negative, zero - L::Pi(), L::Pi());
    const V from_real = L::Select(L::Lt(x, zero), a + turn, a);
    return L::Select(steep, from_axis, from_real);
  }

  /// A circle |z| = r.
  struct Circle {
    V s, r, d;  // r = e^s, d = r - 1
    V e;        // r^n / x, held where squares of squares stay finite
  };

  static HWY_INLINE Circle At(const Polynomial& k, V s) {
    Circle o;
    o.s = s;
    o.r = L::Exp(s);
    o.d = L::Expm1(s);
    const V turn = L::Max(L::Min(k.n * s, C(300)), C(-300));
    o.e = L::Min(L::Exp(turn) / k.x, C(1e65));
    return o;
  }

  /// G, G' and their noise at one point of a circle.
  struct Sample {
    V r, w, p, q;
    V noise_r, noise_w;
    V abs_u2;
  };

  // `sine` is sin(theta), exactly 0 for a point on the real axis.
  static HWY_INLINE Sample Evaluate(const Polynomial& k, const Circle& o, V c, V sine, V theta) {
    const V zero = C(0), one = C(1), two = C(2);
    const V rc = o.r * c;
    const V d_mu = o.d + k.mu;
    const V u2 = o.d * o.d + two * rc;
    const V m2 = d_mu * d_mu + two * k.m * rc;
    const V re_u = o.d - rc;
    const V im_u = o.r * sine;
    const V re_m = re_u + k.mu;
    const V re_1 = k.kappa + k.beta * re_u;
    const V im_1 = k.beta * im_u;
    const V re_2 = one + k.gamma * re_u;
    const V im_2 = k.gamma * im_u;
    const V l1 = re_1 * re_1 + im_1 * im_1;
    const V l2 = re_2 * re_2 + im_2 * im_2;
    const V inv_u2 = one / u2, inv_m2 = one / m2, inv_l1 = one / l1, inv_l2 = one / l2;

    Sample y;
    y.abs_u2 = u2;
    y.r = C(0.5) * L::Log((o.e * o.e * u2) * m2 / (l1 * l2));

    // Both angles from the imaginary axis lie in (-pi/2, pi/2), so their sum does not wrap.
    const V angle_f = Atan2(im_u * (re_u + re_m), im_u * im_u - re_u * re_m);
    // Each lead's angle lies in (0, pi) or (-pi, 0) by the sign of its coefficient.
    V angle_g = Atan2(re_1 * im_2 + im_1 * re_2, re_1 * re_2 - im_1 * im_2);
    const M up = L::And(L::Lt(zero, k.beta), L::Lt(zero, k.gamma));
    const M down = L::And(L::Lt(k.beta, zero), L::Lt(k.gamma, zero));
    angle_g = L::Select(L::And(up, L::Lt(angle_g, zero)), angle_g + TwoPi(), angle_g);
    angle_g = L::Select(L::And(down, L::Lt(zero, angle_g)), angle_g - TwoPi(), angle_g);
    const V turns = k.n * theta;
    y.w = turns - angle_f - angle_g;

    y.p = k.n + o.r * ((o.d + c) * inv_u2 + (d_mu + k.m * c) * inv_m2 -
                       k.beta * (k.kappa + k.beta * o.d + (k.beta - k.kappa) * c) * inv_l1 -
                       k.gamma * (one + k.gamma * o.d + (k.gamma - one) * c) * inv_l2);
    y.q = im_u * (zero - inv_u2 - k.m * inv_m2 + k.beta * (k.beta - k.kappa) * inv_l1 +
                  k.gamma * (k.gamma - one) * inv_l2);

    // First-order noise: every real part is known to kUnit times the sum of its terms' sizes.
    const V e_u = L::Abs(o.d) + rc;
    const V e_m = e_u + k.mu;
    const V e_1 = k.kappa_size + k.beta_size * e_u;
    const V e_2 = one + L::Abs(k.gamma) * e_u;
    const V beta_1 = L::Abs(k.beta) * e_1 * inv_l1;
    const V gamma_2 = L::Abs(k.gamma) * e_2 * inv_l2;
    const V unit = L::Unit();
    y.noise_w = unit * (turns + L::Abs(angle_f) + L::Abs(angle_g) +
                        im_u * (e_u * inv_u2 + e_m * inv_m2 + beta_1 + gamma_2));
    // |Re u| e_u / |u|^2 <= e_u / |u| and so on; the squared form needs no root.
    y.noise_r = unit * (C(kFixedUnits) + k.n * L::Abs(o.s) + L::Abs(re_u) * e_u * inv_u2 +
                        L::Abs(re_m) * e_m * inv_m2 + L::Abs(re_1) * e_1 * inv_l1 +
                        L::Abs(re_2) * e_2 * inv_l2);
    return y;
  }

  /// The distance of W from the nearest whole turn.
  static HWY_INLINE V FromWholeTurn(V w) { return w - TwoPi() * L::Round(w * (one_over_two_pi())); }
  static HWY_INLINE V one_over_two_pi() { return C(1) / TwoPi(); }

  // Phase of a lead on the real axis, in units of pi.
  static HWY_INLINE V RealPhase(V value, V coefficient) {
    const V zero = C(0);
    const V side = L::Select(L::Lt(coefficient, zero), C(-1), C(1));
    return L::Select(L::Lt(value, zero), side, zero);
  }

  struct Crossing {
    V turns, theta, distance;
    M clear;
  };

  static HWY_INLINE Crossing Cross(const Polynomial& k, const Circle& o, V c) {
    const V inside = L::Max(L::Min(c, C(2)), C(0));
    const V rest = C(2) - inside;
    Crossing x;
    x.theta = C(2) * Atan2(L::Sqrt(inside), L::Sqrt(rest));
    const Sample y = Evaluate(k, o, inside, L::Sqrt(inside * rest), x.theta);
    x.turns = L::Floor(y.w * one_over_two_pi()) + C(1);
    const V gap = L::Abs(FromWholeTurn(y.w));
    const V abs_q = L::Abs(y.q);
    // A change e_R of R moves the crossing by e_R / |q| in theta, and W by |p| times that.
    const V noise = y.noise_w * abs_q + L::Abs(y.p) * y.noise_r;
    x.clear = L::Lt(noise, gap * abs_q);
    x.distance = gap * abs_q / (y.p * y.p + y.q * y.q);
    return x;
  }

  /// Where on a circle f gives way to g and back, and both on the real axis.
  struct Split {
    V f0, g0, fpi, gpi;  // at theta = 0 and pi; fpi without the sign of z^n
    V across;            // |u| at theta = pi
    V k1, k2, j1, j2;    // the leads at theta = 0 and pi
    M f_at_0, f_at_pi;   // f dominates there
    M has_down, has_up;
    V c_down, c_up;  // 1 - cos theta of the crossings, where there are any
  };

  static HWY_INLINE Split SplitCircle(const Polynomial& k, const Circle& o) {
    const V zero = C(0), one = C(1), two = C(2), four = C(4);
    const V d_mu = o.d + k.mu;
    Split y;
    y.k1 = k.kappa + k.beta * o.d;
    y.k2 = one + k.gamma * o.d;
    y.f0 = o.e * o.d * d_mu;
    y.g0 = y.k1 * y.k2;
    y.across = two + o.d;
    y.j1 = k.kappa - k.beta * y.across;
    y.j2 = one - k.gamma * y.across;
    y.fpi = o.e * y.across * (o.r + k.m);
    y.gpi = y.j1 * y.j2;

    // F(c) = quad c^2 + lin c + con
    const V big_f = o.e * o.e;
    const V lead_1 = k.beta * (k.beta - k.kappa);
    const V lead_2 = k.gamma * (k.gamma - one);
    const V quad = four * o.r * o.r * (big_f * k.m - lead_1 * lead_2);
    const V lin =
        two * o.r *
        (big_f * (o.d * o.d * k.m + d_mu * d_mu) - (y.k1 * y.k1 * lead_2 + y.k2 * y.k2 * lead_1));
    const V con = (y.f0 - y.g0) * (y.f0 + y.g0);
    const V disc = lin * lin - four * quad * con;

    y.f_at_0 = L::Lt(L::Abs(y.g0), L::Abs(y.f0));
    y.f_at_pi = L::Lt(L::Abs(y.gpi), y.fpi);
    const M same = L::Not(L::Xor(y.f_at_0, y.f_at_pi));
    // Two crossings: F has one sign at both ends, the other at its vertex in between.
    const M vertex = L::And(L::Lt(quad * lin, zero), L::Lt(L::Abs(lin), four * L::Abs(quad)));
    const M towards = L::Not(L::Xor(y.f_at_0, L::Lt(zero, quad)));
    const M both = L::And(L::And(same, towards), L::And(L::Lt(zero, disc), vertex));
    y.has_down = L::Or(both, L::And(y.f_at_0, L::Not(y.f_at_pi)));
    y.has_up = L::Or(both, L::And(y.f_at_pi, L::Not(y.f_at_0)));

    // The two zeros of F without cancellation; F falls through one and rises through the other.
    const V root = L::Sqrt(L::Max(disc, zero));
    const M lin_up = L::Not(L::Lt(lin, zero));
    const V t = zero - L::Select(lin_up, lin + root, lin - root);
    const V by_quad = t / (two * quad);
    const V by_con = two * con / t;
    y.c_down = L::Select(lin_up, by_quad, by_con);
    y.c_up = L::Select(lin_up, by_con, by_quad);
    return y;
  }

  /// Number of roots with log |z| > s.
  static HWY_NOINLINE Count CountOutside(const Polynomial& k, V s) {
    const V zero = C(0), one = C(1), two = C(2);
    const Circle o = At(k, s);
    const V d_mu = o.d + k.mu;
    const Split y = SplitCircle(k, o);

    Count count;
    M clear = L::Lt(zero, one);
    V turns = zero;
    count.near_theta = zero;
    count.near_distance = C(1e300);
    if (L::Any(y.has_down)) {
      const Crossing x = Cross(k, o, y.c_down);
      turns = L::Select(y.has_down, x.turns, zero);
      clear = L::And(clear, L::Or(x.clear, L::Not(y.has_down)));
      count.near_theta = L::Select(y.has_down, x.theta, count.near_theta);
      count.near_distance = L::Select(y.has_down, x.distance, count.near_distance);
    }
    if (L::Any(y.has_up)) {
      const Crossing x = Cross(k, o, y.c_up);
      turns = turns - L::Select(y.has_up, x.turns, zero);
      clear = L::And(clear, L::Or(x.clear, L::Not(y.has_up)));
      const M nearer = L::And(y.has_up, L::Lt(x.distance, count.near_distance));
      count.near_theta = L::Select(nearer, x.theta, count.near_theta);
      count.near_distance = L::Select(nearer, x.distance, count.near_distance);
    }

    const V start_f =
        L::Select(L::Lt(o.d, zero), one, zero) + L::Select(L::Lt(d_mu, zero), one, zero);
    const V start_g = RealPhase(y.k1, k.beta) + RealPhase(y.k2, k.gamma);
    const V end_f = k.n + two;
    const V end_g = RealPhase(y.j1, k.beta) + RealPhase(y.j2, k.gamma);
    const V start = L::Select(y.f_at_0, start_f, start_g);
    const V end = L::Select(y.f_at_pi, end_f, end_g);
    count.outside = end_f - (end - start + two * turns);

    // Real roots: where f and g have opposite signs on the axis and nearly equal sizes.
    const V unit = L::Unit();
    const V growth = C(kFixedUnits) + k.n * L::Abs(s);
    const V abs_d = L::Abs(o.d);
    const V slope_0 = k.n + one / abs_d + one / L::Abs(d_mu);
    const V err_0 = unit * (growth * (o.e * abs_d * (abs_d + k.mu)) +
                            (k.kappa_size + k.beta_size * abs_d) * (one + L::Abs(k.gamma * o.d)));
    const V gap_0 = L::Abs(L::Abs(y.f0) - L::Abs(y.g0));
    const M real_0 = L::Lt(y.f0 * y.g0, zero);
    clear = L::And(clear, L::Or(L::Lt(err_0, gap_0), L::Not(real_0)));
    const V distance_0 = gap_0 / (L::Abs(y.g0) * slope_0);
    const M nearer_0 = L::And(real_0, L::Lt(distance_0, count.near_distance));
    count.near_theta = L::Select(nearer_0, zero, count.near_theta);
    count.near_distance = L::Select(nearer_0, distance_0, count.near_distance);

    const V err_pi = unit * (growth * y.fpi + (k.kappa_size + k.beta_size * y.across) *
                                                  (one + L::Abs(k.gamma * y.across)));
    const V gap_pi = L::Abs(y.fpi - L::Abs(y.gpi));
    const M odd = L::Lt(two * L::Floor(k.n * C(0.5)), k.n);
    const M g_negative = L::Lt(y.gpi, zero);
    const M real_pi = L::Xor(odd, g_negative);
    clear = L::And(clear, L::Or(L::Lt(err_pi, gap_pi), L::Not(real_pi)));
    const V distance_pi = gap_pi / (L::Abs(y.gpi) * (k.n + one));
    const M nearer_pi = L::And(real_pi, L::Lt(distance_pi, count.near_distance));
    count.near_theta = L::Select(nearer_pi, L::Pi(), count.near_theta);
    count.near_distance = L::Select(nearer_pi, distance_pi, count.near_distance);

    count.clear = clear;
    return count;
  }

  /// Newton's method from root.s, root.theta; then the certificate. Lanes that do not start or do
  /// not converge come back uncertified.
  static HWY_NOINLINE void Refine(const Polynomial& k, Root& root) {
    const V zero = C(0), one = C(1), two = C(2);
    M active = L::And(L::Lt(L::Abs(root.s), C(110)), L::Lt(root.theta, C(4)));
    V est = C(1e300);
    for (int step = 0; step < 12 && L::Any(active); ++step) {
      const M on_axis = L::Or(L::Not(L::Lt(zero, root.theta)), L::Not(L::Lt(root.theta, L::Pi())));
      const V half = root.theta * C(0.5);
      const V sh = L::Sin(half);
      const V sine = L::Select(on_axis, zero, two * sh * L::Cos(half));
      const Sample y = Evaluate(k, At(k, root.s), two * sh * sh, sine, root.theta);
      const V w = L::Select(on_axis, zero, FromWholeTurn(y.w));
      const V inv = one / (y.p * y.p + y.q * y.q);
      const V ds = (y.r * y.p + w * y.q) * inv;
      const V dt = (w * y.p - y.r * y.q) * inv;
      const V abs_u = L::Sqrt(y.abs_u2);
      const V noise_w = L::Select(on_axis, zero, y.noise_w);
      est = L::Select(active, (L::Abs(y.p) * y.noise_r + L::Abs(y.q) * noise_w) * inv, est);
      root.s = L::Select(active, root.s - ds, root.s);
      // Reflect: the roots of a real polynomial come in conjugate pairs.
      V theta = L::Abs(root.theta - dt);
      theta = L::Select(L::Lt(L::Pi(), theta), TwoPi() - theta, theta);
      // A complex iterate that ran onto the axis stays there.
      theta = L::Select(L::Lt(theta, C(1e-13) * abs_u), zero, theta);
      theta = L::Select(L::Lt(L::Pi() - theta, C(1e-13)), L::Pi(), theta);
      theta = L::Select(on_axis, root.theta, theta);
      root.theta = L::Select(active, theta, root.theta);
      root.p = L::Select(active, y.p, root.p);
      root.q = L::Select(active, y.q, root.q);
      const V moved = ds * ds + dt * dt;
      const V enough = L::Settled() * abs_u * (L::Abs(root.s) + C(1e-8) * abs_u);
      const M more = L::Not(L::Lt(moved, enough));
      active = L::And(active, more);
    }
    const M usable = L::And(L::Lt(est, C(1)), L::Lt(L::Abs(root.s), C(110)));
    root.delta = C(kNoiseFactor) * est + L::Unit() * L::Abs(root.s);
    root.certified = L::And(usable, Certify(k, root.s, root.delta));
  }

  /// No root outside s + delta, at least one outside s - delta.
  static HWY_INLINE M Certify(const Polynomial& k, V s, V delta) {
    const Count above = CountOutside(k, s + delta);
    const Count below = CountOutside(k, s - delta);
    const V half = C(0.5);
    return L::And(L::And(above.clear, L::Lt(above.outside, half)),
                  L::And(below.clear, L::Lt(half, below.outside)));
  }

  static constexpr double kSmallestPower =
      200;  // |s| >= 2^-200 / (n + 2) at the start of the search
  static constexpr double kLargestPower = 24;

  /// Maps a monotone index to s: powers of two on both sides of 0, in units of 1 / (n + 2).
  static HWY_INLINE V SearchPoint(V unit_s, V index) {
    const V zero = C(0);
    const V size = L::Min(unit_s * L::Exp((L::Abs(index) - C(kSmallestPower)) * L::Ln2()), C(100));
    const V s = L::Select(L::Lt(index, zero), zero - size, size);
    return L::Select(L::Lt(L::Abs(index), C(0.5)), zero, s);
  }

  /// The dominant root from nothing: bisection on the count, Newton's method as soon as it takes.
  /// Lanes outside `wanted` keep their root.
  static HWY_NOINLINE void Search(const Polynomial& k, M wanted, Root& root, int rounds) {
    const V half = C(0.5);
    const V unit_s = C(1) / (k.n + C(2));
    V lo = C(-(kSmallestPower + kLargestPower)), hi = C(kSmallestPower + kLargestPower);
    for (int i = 0; i < 9; ++i) {
      const V mid = L::Floor((lo + hi) * half);
      const Count count = CountOutside(k, SearchPoint(unit_s, mid));
      const M outside = L::Lt(half, count.outside);
      lo = L::Select(outside, mid, lo);
      hi = L::Select(outside, hi, mid);
    }
    V s_lo = SearchPoint(unit_s, lo), s_hi = SearchPoint(unit_s, hi);
    M open = wanted;
    for (int round = 0; round < rounds && L::Any(open); ++round) {
      for (int i = 0; i < 4; ++i) {
        const V mid = (s_lo + s_hi) * half;
        const M outside = L::Lt(half, CountOutside(k, mid).outside);
        s_lo = L::Select(outside, mid, s_lo);
        s_hi = L::Select(outside, s_hi, mid);
      }
      Root trial = root;
      trial.s = (s_lo + s_hi) * half;
      trial.theta = CountOutside(k, trial.s).near_theta;
      Refine(k, trial);
      const M take = L::And(open, trial.certified);
      root.s = L::Select(take, trial.s, root.s);
      root.theta = L::Select(take, trial.theta, root.theta);
      root.p = L::Select(take, trial.p, root.p);
      root.q = L::Select(take, trial.q, root.q);
      root.delta = L::Select(take, trial.delta, root.delta);
      root.certified = L::Or(root.certified, take);
      open = L::And(open, L::Not(take));
      // What stays open keeps the middle of its bracket, so that the caller can widen around it.
      root.s = L::Select(open, (s_lo + s_hi) * half, root.s);
      root.theta = L::Select(open, trial.theta, root.theta);
      root.delta = L::Select(open, (s_hi - s_lo) * half, root.delta);
    }
  }

  /// n = 0: p = A u^2 + B u + C in closed form. `root.theta` is not meaningful.
  static HWY_INLINE void Quadratic(const Polynomial& k, Root& root) {
    const V zero = C(0), one = C(1), two = C(2), four = C(4);
    const V a = one + k.x * k.beta * k.gamma;
    const V b = k.mu + k.x * (k.beta + k.kappa * k.gamma);
    const V c = k.x * k.kappa;
    const V b_size = k.mu + k.x * (k.beta_size + k.kappa_size * L::Abs(k.gamma));
    const V c_size = k.x * k.kappa_size;
    const V a_size = one + k.x * k.beta_size * L::Abs(k.gamma);
    const V unit = L::Unit();
    const V disc = b * b - four * a * c;
    const V disc_noise = unit * (b_size * b_size + four * a_size * c_size);
    const M complex_pair = L::Lt(disc, zero);
    const V abs_a = L::Abs(a);

    // Complex pair: |z|^2 = 1 + (C - B) / A.
    const V excess = (c - b) / a;
    const V pair_s = C(0.5) * L::Log1p(excess);
    const V pair_noise = unit * (c_size + b_size + L::Abs(excess) * a_size) /
                         (abs_a * L::Max(one + excess, C(1e-300)));

    // Real pair, each without cancellation.
    const V root_disc = L::Sqrt(L::Max(disc, zero));
    const V t = zero - (b + L::Select(L::Lt(b, zero), zero - root_disc, root_disc)) * C(0.5);
    const V u1 = t / a;
    const V u2 = L::Select(L::Lt(zero, L::Abs(t)), c / t, zero);
    // By (1 + u1)^2 - (1 + u2)^2, in which the 1 does not swallow roots that are close to it.
    const M first = L::Lt(zero, (u1 - u2) * (two + u1 + u2));
    const V u = L::Select(first, u1, u2);
    const M positive = L::Lt(C(-1), u);
    const V real_s = L::Select(positive, L::Log1p(L::Select(positive, u, zero)),
                               L::Log(L::Max(L::Abs(one + u), C(1e-300))));
    const V disc_step = disc_noise / L::Max(root_disc, L::Sqrt(disc_noise));
    // C may cancel, where only that of u2 = C / t is left of its noise.
    const M has_c = L::Lt(zero, L::Abs(c));
    const V of_c = L::Select(has_c, c_size / L::Max(L::Abs(c), C(1e-300)), zero);
    const V rest = L::Select(L::Or(has_c, first), zero, c_size / L::Max(L::Abs(t), C(1e-300)));
    // Relative noise of t, and of A, B and C in either root.
    const V du = L::Abs(u) * (disc_step / L::Max(L::Abs(two * t), C(1e-300)) +
                              unit * (one + b_size / L::Max(L::Abs(b) + root_disc, C(1e-300)) +
                                      a_size / abs_a + of_c)) +
                 unit * rest;
    const V real_noise = du / L::Max(L::Abs(one + u), C(1e-300));

    root.s = L::Select(complex_pair, pair_s, real_s);
    root.theta = zero;
    root.p = one;
    root.q = zero;
    // Where the sign of the discriminant is noise, the two forms differ by its root.
    const M doubtful = L::Not(L::Lt(disc_noise, L::Abs(disc)));
    const V doubt =
        L::Sqrt(disc_noise) / (two * abs_a * L::Max(L::Abs(one - b / (two * a)), C(1e-300)));
    const V noise = L::Select(complex_pair, pair_noise, real_noise);
    root.delta = noise + L::Select(doubtful, doubt, zero) + unit * L::Abs(root.s);
    root.certified = L::And(L::Lt(root.delta, C(1)), L::Lt(zero, one));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::analysis
HWY_AFTER_NAMESPACE();

#endif  // BATCHLESS_ANALYSIS_ROOT_KERNEL_INL_H_
