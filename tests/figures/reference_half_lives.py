"""Best half-lives by another road, for the expected values in figures/claims.

    python3 tests/figures/reference_half_lives.py

Eigenvalues of companion matrices over a grid of momenta, rates and eigenvalues that closes in on
its best point. Shares nothing with the analyzer but the equations; takes about a minute. Without
delay the best factor per update is known in closed form: (sqrt(kappa) - 1) / (sqrt(kappa) + 1) for
SGDM (Polyak 1964), and 1 - 2 / sqrt(3 kappa + 1) for Nesterov's momentum (Lessard, Recht and
Packard 2016).
"""

import math

import numpy as np

CONDITION = 1000
# name: compensated delay / D, horizon / D, weight form
RULES = {
    "SGDM": (0, 0, False),
    "SC_D": (1, 0, False),
    "LWP_D": (0, 1, False),
    "SC_2D": (2, 0, False),
    "LWP_2D": (0, 2, False),
    "LWPv_D+SC_D": (1, 1, False),
    "LWPw_D+SC_D": (1, 1, True),
}


def half_life(radius):
    return -math.log(2) / math.log(radius)


def undelayed_sgdm(condition=CONDITION):
    root = math.sqrt(condition)
    return half_life((root - 1) / (root + 1))


def undelayed_nesterov(condition=CONDITION):
    return half_life(1 - 2 / math.sqrt(3 * condition + 1))


def worst_radius(rule, delay, momentum, rate, eigenvalues=160):
    """Largest root modulus over the spectrum, for one momentum and an array of rates."""
    compensated, horizon, weight_form = rule
    a = momentum ** (compensated * delay)
    b = (1 - a) / (1 - momentum)
    ahead = horizon * delay
    update = np.array([a + b, -b * momentum])
    if weight_form:
        numerator = np.polymul(update, [1 + ahead, -ahead])
    else:
        numerator = update + ahead * np.array([1, -1])
    degree = delay + (3 if weight_form else 2)
    polynomial = np.zeros(degree + 1)
    polynomial[:3] = np.polymul([1, -1], [1, -momentum])
    right = np.zeros(degree + 1)
    right[degree + 1 - len(numerator) :] = numerator
    spectrum = np.geomspace(1 / CONDITION, 1, eigenvalues)
    x = (rate[:, None] * spectrum).ravel()
    companion = np.zeros((len(x), degree, degree))
    companion[:, 0, :] = -(polynomial + x[:, None] * right)[:, 1:]
    companion[:, np.arange(1, degree), np.arange(degree - 1)] = 1
    radii = np.abs(np.linalg.eigvals(companion)).max(axis=1)
    return radii.reshape(len(rate), -1).max(axis=1)


def best_half_life(rule, delay, points=13, rounds=14):
    """Grid over (log(1 - m), log x), each round around the best point of the last."""
    center, reach = np.array([math.log(1e-2), math.log(0.03)]), np.array([4.6, 4.0])
    best = np.inf
    for _ in range(rounds):
        # m = 0 is the edge of the range: never step over it.
        logs = np.minimum(np.linspace(-1, 1, points) * reach[0] + center[0], 0)
        rates = np.exp(np.linspace(-1, 1, points) * reach[1] + center[1])
        table = np.array([worst_radius(rule, delay, -np.expm1(u), rates) for u in logs])
        i, j = np.unravel_index(np.argmin(table), table.shape)
        if table[i, j] < best:
            best, center = table[i, j], np.array([logs[i], math.log(rates[j])])
        reach = reach * 0.5
    return half_life(best)


if __name__ == "__main__":
    print(f"undelayed: SGDM {undelayed_sgdm():.5g}, Nesterov {undelayed_nesterov():.5g}")
    for delay in (1, 4):
        for name, rule in RULES.items():
            print(f"D = {delay}: {name} {best_half_life(rule, delay):.5g}")
