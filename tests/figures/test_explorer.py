"""The explorer in a browser: its numbers are the program's, and keys, touch and links work."""

import json
import math
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

from figures.heat_maps import plot as heat_maps
from figures.lib import style
from tests.figures.browser import Browser

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("BATCHLESS_PROGRAM", str(ROOT / "build/bin/batchless"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Other vector functions than the program's run in the page: both are right to their certificates,
# and what is computed from them to some more roundings.
ROUNDINGS = 1e-10
# The search for an optimum ends within this of the best half-life (rates.h), where it is flat.
SEARCH = 1e-3
# The map is kept in single precision, and beside double roots doubles are not refined.
MAP_RELATIVE, MAP_ABSOLUTE = 2**-22, 1e-7

STATE = {"rule": "sc", "delay": 4, "log1m": -1, "log-rate": -2.5, "condition": 100}
READY = "globalThis.explorer?.times.fine && explorer.best && !explorer.frame"


def program(command: str, **arguments) -> dict:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
    done = subprocess.run([PROGRAM, command, *words, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def link(state: dict) -> str:
    return "#" + "&".join(f"{name}={value}" for name, value in state.items())


@unittest.skipUnless(shutil.which("em++"), "no em++: Emscripten compiles the explorer")
@unittest.skipUnless(CHROMIUM, "no chromium to open the explorer")
class ExplorerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        environment = os.environ | {"SETUP": "skip", "PRESET": "release"}
        subprocess.run([ROOT / ".ci/explorer"], env=environment, check=True, capture_output=True)
        cls.page = (ROOT / "build/figures/explorer.html").as_uri()
        cls.browser = Browser(CHROMIUM)
        cls.addClassCleanup(cls.browser.close)

    def open(self, state=None, **options):
        tab = self.browser.open(self.page + link(state or STATE), **options)
        tab.wait_for(READY)
        # The last drawing of the best point.
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.addCleanup(lambda: self.assertEqual(tab.errors(), []))
        return tab

    def reading(self, tab, name: str) -> float:
        text = tab.evaluate(f"document.querySelector('[data-name={name}]').dataset.value")
        return float(text.replace("Infinity", "inf"))

    def close_to(self, found, expected, relative):
        self.assertLessEqual(abs(found - expected), relative * abs(expected), (found, expected))

    def test_page_needs_no_network(self):
        text = (ROOT / "build/figures/explorer.html").read_text()
        self.assertNotRegex(text, r"(src|href)=\"(https?:)?//")
        self.assertNotIn("import(", text)

    def test_readings_are_the_programs(self):
        tab = self.open()
        at = {"momentum": repr(self.reading(tab, "momentum")), "rate": repr(self.reading(tab, "rate"))}
        expected = program("stability", rule="sc", delay=4, **at)
        bound = self.reading(tab, "error_bound") + expected["error_bound"]
        difference = abs(self.reading(tab, "spectral_radius") - expected["spectral_radius"])
        self.assertLessEqual(difference, bound)
        self.close_to(self.reading(tab, "half_life_updates"), expected["half_life_updates"], ROUNDINGS)
        margin = program("margin", rule="sc", delay=4, **at)
        for name in ["gain_margin", "phase_margin_radians", "delay_margin_updates"]:
            self.close_to(self.reading(tab, name), margin[name], ROUNDINGS)
        boundary = program("boundary", rule="sc", delay=4, momentum=at["momentum"])
        self.close_to(self.reading(tab, "critical_rate"), boundary["critical_rate"], ROUNDINGS)
        best = program("optimum", rule="sc", delay=4, condition=100)
        self.close_to(self.reading(tab, "best_half_life_updates"), best["half_life_updates"], SEARCH)
        limit = best["limit_half_life_updates"]
        self.close_to(self.reading(tab, "limit_half_life_updates"), limit, ROUNDINGS)
        # The page's own best momentum and rate are as good by the program.
        worst = program(
            "optimum", rule="sc", delay=4, condition=100, momentum=repr(self.reading(tab, "best_momentum"))
        )
        self.close_to(worst["half_life_updates"], best["half_life_updates"], SEARCH)

    def test_coefficients_are_taken_from_the_state(self):
        tab = self.open(STATE | {"rule": "free", "sc-a": 0.5, "sc-b": 2, "horizon": 3})
        at = {"momentum": repr(self.reading(tab, "momentum")), "rate": repr(self.reading(tab, "rate"))}
        expected = program("stability", rule="free", delay=4, sc_a=0.5, sc_b=2, horizon=3, **at)
        self.close_to(self.reading(tab, "spectral_radius"), expected["spectral_radius"], ROUNDINGS)

    def test_map_is_the_programs_sweep(self):
        tab = self.open()
        values = np.array(tab.evaluate("Array.from(explorer.map.values)"))
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "sweep.npz"
            program("sweep", rule="sc", delay=4, momenta="log1m:-5:0:512", rates="log:1e-6:10:512",
                    out=out)  # fmt: skip
            with np.load(out) as arrays:
                expected, momentum = arrays["log_spectral_radius"], arrays["momentum"]
        if momentum[0] < momentum[-1]:
            expected = expected[::-1]
        self.assertEqual(values.size, expected.size)
        allowed = MAP_RELATIVE * np.abs(expected) + MAP_ABSOLUTE
        self.assertTrue(np.all(np.abs(values.reshape(expected.shape) - expected) <= allowed))
        # And its colours are those of the figure, but for the shade next to it.
        pixels = tab.evaluate("Array.from(explorer.map.pixels.data)")
        pixels = np.array(pixels).reshape(512, 512, 4)[::-1, :, :3]
        shade = heat_maps.NORM(-np.minimum(expected, -1e-300))
        colors = 255 * style.plt.get_cmap("viridis")(shade)[..., :3]
        stable = expected < -1e-6
        self.assertGreater(stable.mean(), 0.2)
        self.assertLessEqual(np.abs(pixels - colors)[stable].max(), 8)
        unstable = pixels[expected > 1e-6]
        self.assertTrue(np.all(unstable == [0xC9, 0xC9, 0xC9]))

    def test_link_brings_the_state_back(self):
        tab = self.open()
        tab.evaluate("""(() => {
          const set = (id, value, type) => {
            const element = document.getElementById(id);
            element.value = value;
            element.dispatchEvent(new Event(type, { bubbles: true }));
          };
          set('rule', 'lwp-w+sc', 'change');
          set('slider-delay', 9, 'input');
          set('slider-rate', -3.25, 'input');
        })()""")
        tab.wait_for("location.hash.includes('delay=9') && location.hash.includes('-3.25')")
        tab.wait_for(READY)
        again = self.browser.open(tab.evaluate("location.href"))
        again.wait_for(READY)
        state = tab.evaluate("explorer.state")
        self.assertEqual((state["rule"], state["delay"], state["rate"]), ("lwp-w+sc", 9, -3.25))
        self.assertEqual(again.evaluate("explorer.state"), state)
        for name in ["spectral_radius", "best_half_life_updates"]:
            self.assertEqual(self.reading(again, name), self.reading(tab, name))
        self.assertEqual(again.errors(), [])

    def test_keys_and_touch_move_the_point(self):
        tab = self.open()
        before = self.reading(tab, "spectral_radius")
        tab.evaluate("document.getElementById('map').focus()")
        tab.press("ArrowRight", 39)
        tab.press("ArrowDown", 40, shift=True)
        tab.wait_for("!explorer.frame")
        state = tab.evaluate("explorer.state")
        self.assertAlmostEqual(state["rate"], -2.45)
        self.assertAlmostEqual(state["gap"], -1.5)
        self.assertNotEqual(self.reading(tab, "spectral_radius"), before)
        tab.press("o", 79)
        tab.wait_for("!explorer.frame")
        self.close_to(self.reading(tab, "rate"), self.reading(tab, "best_rate"), ROUNDINGS)
        frame = tab.evaluate("explorer.map.canvas.getBoundingClientRect().toJSON()")
        where = {"x": frame["x"] + frame["width"] / 2, "y": frame["y"] + frame["height"] / 2}
        tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[where])
        tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        middle = tab.evaluate(
            f"explorer.map.pointAt({frame['width'] / 2}, {frame['height'] / 2}).rate"
        )
        self.assertAlmostEqual(tab.evaluate("explorer.state.rate"), middle)

    def test_pointer_looks_at_a_point_without_moving_it(self):
        tab = self.open()
        frame = tab.evaluate("explorer.map.canvas.getBoundingClientRect().toJSON()")
        x, y = frame["width"] / 3, frame["height"] / 2
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=frame["x"] + x, y=frame["y"] + y)
        tab.wait_for("explorer.hovered && !explorer.frame")
        under = tab.evaluate(f"explorer.map.pointAt({x}, {y})")
        self.close_to(self.reading(tab, "rate"), 10 ** under["rate"], ROUNDINGS)
        self.close_to(self.reading(tab, "momentum"), 1 - 10 ** under["gap"], ROUNDINGS)
        self.assertEqual(tab.evaluate("explorer.state.rate"), STATE["log-rate"])

    def test_controls_are_labelled_and_in_order(self):
        tab = self.open()
        unnamed = tab.evaluate("""[...document.querySelectorAll('input, select, button, canvas[tabindex]')]
          .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))
          .map((e) => e.outerHTML)""")
        self.assertEqual(unnamed, [])
        order = []
        for _ in range(9):
            tab.press("Tab", 9)
            order.append(tab.evaluate("document.activeElement.id"))
        expected = ["tab-map", "tab-schedules", "rule", "slider-delay", "slider-gap", "slider-rate",
                    "slider-condition"]  # fmt: skip
        self.assertEqual(order[:7], expected)

    def test_a_phone_shows_it_without_scrolling_sideways(self):
        for tab_name in ["map", "schedules"]:
            tab = self.open(STATE, width=390, height=844, mobile=True)
            tab.evaluate(f"explorer.change({{ tab: '{tab_name}' }})")
            tab.wait_for("!explorer.frame")
            self.assertLessEqual(tab.evaluate("document.documentElement.scrollWidth"), 390)

    def test_schedules_are_the_programs(self):
        tab = self.open()
        for kind in tab.evaluate("explorer.engine.kinds.map(({ name }) => name)"):
            tab.evaluate(f"explorer.change({{ tab: 'schedules', kind: '{kind}', stages: 4, microbatches: 8 }})")
            tab.wait_for("!explorer.frame")
            expected = program("schedule", kind=kind, stages=4, microbatches=8)
            column = "[...document.querySelectorAll('#delays tbody tr')].map((r) => Number(r.cells[1].dataset.value))"
            self.assertEqual(tab.evaluate(column), expected["steady_delays"], kind)
            shown = tab.evaluate("Number(document.getElementById('schedule-summary').dataset.value)")
            self.assertTrue(math.isclose(shown, expected["utilisation"], rel_tol=1e-12), kind)
        tab.evaluate("explorer.change({ kind: '2bw', microbatches: 3 })")
        tab.wait_for("!explorer.frame")
        self.assertIn("accepted", tab.evaluate("document.getElementById('schedule-error').textContent"))

    def test_redraw_times(self):
        """Prints how long maps take; nothing about them is asserted but that they were drawn."""
        tab = self.open()
        for delay in [0, 4, 16, 64]:
            tab.evaluate(f"explorer.times.fine = 0; explorer.change({{ delay: {delay} }}, true)")
            tab.wait_for(READY)
            fine = tab.evaluate("explorer.times.fine")
            frames = tab.evaluate("""(async () => {
              const slider = document.getElementById('slider-horizon');
              const start = performance.now();
              const count = 40;
              for (let i = 0; i < count; ++i) {
                explorer.change({ rule: 'lwp-v+sc', horizon: i / 8 });
                await new Promise(requestAnimationFrame);
              }
              return { perSecond: (1000 * count) / (performance.now() - start), coarse: explorer.times.coarse };
            })()""")
            print(
                f"explorer, D = {delay}: 512 x 512 in {fine:.0f} ms; 128 x 128 in "
                f"{frames['coarse']:.1f} ms, {frames['perSecond']:.0f} whole frames a second",
                flush=True,
            )
            self.assertGreater(fine, 0)
            tab.evaluate("explorer.change({ rule: 'sc', horizon: null })")


if __name__ == "__main__":
    unittest.main()
