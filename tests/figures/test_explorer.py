"""Explorer and explainer in a browser: their numbers are the program's, and keys, touch and links work."""

import base64
import gzip
import hashlib
import json
import math
import os
import random
import re
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
DELAYS = "[...document.querySelectorAll('#delays tbody tr')].map((r) => Number(r.cells[1].dataset.value))"
READY = "globalThis.explorer?.times.fine && explorer.best && !explorer.frame"


def program(command: str, **arguments) -> dict:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
    done = subprocess.run([PROGRAM, command, *words, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def link(state: dict) -> str:
    return "#" + "&".join(f"{name}={value}" for name, value in state.items())


@unittest.skipUnless(shutil.which("em++"), "no em++: Emscripten compiles the pages")
@unittest.skipUnless(CHROMIUM, "no chromium to open the pages")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        environment = os.environ | {"SETUP": "skip", "PRESET": "release"}
        subprocess.run([ROOT / ".ci/explorer"], env=environment, check=True, capture_output=True)
        cls.page = (ROOT / f"build/figures/{cls.name}.html").as_uri()
        cls.browser = Browser(CHROMIUM, timeout_seconds=120)
        cls.addClassCleanup(cls.browser.close)

    def close_to(self, found, expected, relative):
        self.assertLessEqual(abs(found - expected), relative * abs(expected), (found, expected))

    def check_labels(self, tab):
        unnamed = tab.evaluate("""[...document.querySelectorAll('input, select, button, canvas[tabindex]')]
          .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))
          .map((e) => e.outerHTML)""")
        self.assertEqual(unnamed, [])


class ExplorerTest(PageTest):
    name = "explorer"

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
        self.check_labels(tab)
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
            self.assertEqual(tab.evaluate(DELAYS), expected["steady_delays"], kind)
            shown = tab.evaluate("Number(document.getElementById('schedule-summary').dataset.value)")
            self.assertTrue(math.isclose(shown, expected["utilisation"], rel_tol=1e-12), kind)
        tab.evaluate("explorer.change({ kind: '2bw', microbatches: 3 })")
        tab.wait_for("!explorer.frame")
        self.assertIn("accepted", tab.evaluate("document.getElementById('schedule-error').textContent"))

    def test_page_holds_the_wasm_file(self):
        page = (ROOT / "build/figures/explorer.html").read_bytes()
        self.assertIn(b'<meta charset="utf-8">', page[:1024])  # where browsers look for it
        packed = re.search(rb'const WASM = "([^"]+)"', page)[1]
        held = gzip.decompress(base64.b64decode(packed))
        file = (ROOT / "build/explorer/explorer.wasm").read_bytes()
        self.assertEqual(hashlib.sha256(held).hexdigest(), hashlib.sha256(file).hexdigest())

    def test_points_over_the_map_are_the_programs(self):
        rules = ["sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag"]
        draw = random.Random(7)
        points = [
            (draw.choice(rules), draw.choice([0, 1, 2, 3, 7, 16, 128, 1000]),
             1 - 10 ** draw.uniform(-5, 0), 10 ** draw.uniform(-6, 1))
            for _ in range(100)
        ]  # fmt: skip
        found = self.open().evaluate(f"""{json.dumps(points)}.map(([rule, delay, momentum, rate]) => {{
          explorer.engine.setRule(rule, delay, {{}});
          const {{ radius, errorBound, stable }} = explorer.engine.point(momentum, rate);
          return [radius, errorBound, stable];
        }})""")
        for (rule, delay, momentum, rate), (radius, bound, stable) in zip(points, found, strict=True):
            at = {"rule": rule, "delay": delay, "momentum": repr(momentum), "rate": repr(rate)}
            expected = program("stability", **at)
            self.assertEqual(stable, expected["stable"], at)
            difference = abs(radius - expected["spectral_radius"])
            self.assertLessEqual(difference, bound + expected["error_bound"], at)

    def test_map_stays_when_memory_grows(self):
        tab = self.open()
        picture = "explorer.map.canvas.toDataURL()"
        before = tab.evaluate(picture)
        tab.evaluate("explorer.engine.exports.memory.grow(1024)")
        tab.evaluate("explorer.times.fine = 0; explorer.newMap(true); explorer.redraw()")
        tab.wait_for(READY)
        self.assertEqual(tab.evaluate(picture), before)

    def test_history_is_changed_seldom(self):
        tab = self.open()
        calls = tab.evaluate("""(async () => {
          let calls = 0;
          for (const name of ['replaceState', 'pushState']) {
            const own = history[name].bind(history);
            history[name] = (...parameters) => { ++calls; own(...parameters); };
          }
          const slider = document.getElementById('slider-rate');
          for (let i = 0; i < 500; ++i) {
            slider.value = -5 + i / 125;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            if (i % 2) await new Promise((done) => setTimeout(done, 8));
          }
          await new Promise((done) => setTimeout(done, 400));
          return calls;
        })()""")
        self.assertLessEqual(calls, 20)
        held, rate = tab.evaluate("[stateOf(location.hash).rate, explorer.state.rate]")
        self.assertEqual(held, rate)
        self.assertEqual(rate, -1.01)

    def test_pointer_finds_cells_on_any_screen(self):
        for ratio in [1, 1.5, 2]:
            tab = self.open()
            tab.call(
                "Emulation.setDeviceMetricsOverride",
                width=800, height=900, deviceScaleFactor=ratio, mobile=False,
            )  # fmt: skip
            tab.evaluate("explorer.map.canvas.style.width = '333px'")
            tab.wait_for(f"explorer.map.canvas.width === Math.round({333 * ratio}) && !explorer.frame")
            for i, j in [(0, 0), (511, 511), (100, 300), (256, 17)]:
                found = tab.evaluate(f"""(() => {{
                  const centre = (axis, cell) => axis.low + ((axis.high - axis.low) * (cell + 0.5)) / 512;
                  const cellOf = (axis, v) => Math.floor((512 * (v - axis.low)) / (axis.high - axis.low));
                  const [x, y] = explorer.map.place(centre(AXES.rate, {i}), centre(AXES.gap, {j}));
                  const frame = explorer.map.canvas.getBoundingClientRect();
                  explorer.map.canvas.dispatchEvent(new PointerEvent('pointermove',
                    {{ clientX: frame.x + x, clientY: frame.y + y, pointerType: 'mouse' }}));
                  return [cellOf(AXES.rate, explorer.hovered.rate), cellOf(AXES.gap, explorer.hovered.gap)];
                }})()""")
                self.assertEqual(found, [i, j])

    def test_links_that_say_what_no_control_does(self):
        tab = self.open(STATE | {"tab": "nothing", "delay": 2.5})
        self.assertEqual(tab.evaluate("[explorer.state.tab, explorer.state.delay]"), ["map", 3])
        self.assertEqual(tab.evaluate("document.getElementById('error').textContent"), "")
        self.assertFalse(tab.evaluate("document.getElementById('view-map').hidden"))

    def test_roots_of_large_delays_are_not_sought(self):
        tab = self.open(STATE | {"delay": 336})
        said = tab.evaluate("document.getElementById('plot-roots').getAttribute('aria-label')")
        self.assertIn("up to a delay of 64", said)
        tab.evaluate("explorer.change({ delay: 9 }, true)")
        tab.wait_for("document.getElementById('plot-roots').getAttribute('aria-label').startsWith('11 roots')")

    def open_schedule(self, motion="no-preference", **state):
        tab = self.browser.open("about:blank")
        features = [{"name": "prefers-reduced-motion", "value": motion}]
        tab.call("Emulation.setEmulatedMedia", features=features)
        tab.call("Page.navigate", url=self.page + link({"tab": "schedules"} | state))
        tab.wait_for("globalThis.explorer?.pipeline.schedule")
        self.addCleanup(lambda: self.assertEqual(tab.errors(), []))
        return tab

    def at_step(self, tab, step, stage) -> dict[str, str]:
        """Readings of the pipeline while that step is under way."""
        tab.evaluate(f"explorer.pipeline.change({{ now: {step} + 0.5, stage: {stage} }}, true)")
        tab.wait_for("!explorer.pipeline.frame")
        return tab.evaluate("""Object.fromEntries([...document.querySelectorAll('#pipeline dd')].map(
          (e) => [e.dataset.name, e.dataset.value]))""")

    def test_pipelines_of_169_stages_move(self):
        for kind, microbatches in [("pb", 8), ("1f1b", 8), ("2bw", 169)]:
            with self.subTest(kind):
                tab = self.open_schedule(kind=kind, stages=169, microbatches=microbatches)
                expected = program("schedule", kind=kind, stages=169, microbatches=microbatches)
                self.assertEqual(tab.evaluate(DELAYS), expected["steady_delays"])
                self.assertEqual(tab.evaluate("explorer.pipeline.state.last"), expected["steps"])
                self.assertEqual(tab.evaluate("document.getElementById('slider-stages').value"), "169")
                self.assertLessEqual(tab.evaluate("document.documentElement.scrollHeight"), 2000)
                pictures = []
                for _ in range(2):
                    drawn = tab.evaluate("explorer.pipeline.state.now")
                    tab.wait_for(f"explorer.pipeline.state.now > {drawn} + 1")
                    pictures.append(tab.evaluate("explorer.pipeline.first.toDataURL()"))
                self.assertNotEqual(*pictures)
                for stage in [0, 84, 168]:
                    delay = int(self.at_step(tab, 10, stage)["stage_delay"])
                    self.assertEqual(delay, expected["steady_delays"][stage])

    def test_pipeline_shows_versions_and_idle_workers(self):
        stages, microbatches = 4, 8
        # Their passes read the newest version.
        for kind, slots in [("pb", 2), ("1f1b", 1)]:
            tab = self.open_schedule(kind=kind, stages=stages, microbatches=microbatches)
            rows = program("schedule", kind=kind, stages=stages, microbatches=microbatches)["actions"]
            passes = [row for row in rows if row[2] != "U"]
            for step in range(max(row[0] for row in rows) + 1):
                stage = step % stages
                found = self.at_step(tab, step, stage)
                made = sum(row[0] < step and row[1:3] == [stage, "U"] for row in rows)
                expected = [made for at, place, *_ in passes if (at, place) == (step, stage)]
                self.assertEqual([int(v) for v in found["versions"].split()], expected, (kind, step))
                self.assertEqual(int(found["newest_version"]), made)
                busy = {place for at, place, *_ in passes if at == step}
                self.assertEqual(int(found["idle_workers"]), stages - len(busy))
                before = sum(at <= step for at, *_ in passes)
                self.assertEqual(int(found["idle_slots"]), stages * slots * (step + 1) - before)

    def test_pipeline_plays_and_pauses(self):
        still = self.open_schedule("reduce")
        self.assertFalse(still.evaluate("Boolean(explorer.pipeline.playing)"))
        tab = self.open_schedule()
        schedule = "explorer.schedule === explorer.pipeline.schedule && explorer.schedule"
        tab.evaluate(f"globalThis.kept = {schedule}")
        self.assertTrue(tab.evaluate("explorer.pipeline.playing"))
        tab.evaluate("document.querySelector('#pipeline .play').click()")
        self.assertFalse(tab.evaluate("explorer.pipeline.playing"))
        tab.evaluate("explorer.pipeline.first.focus()")
        tab.press(" ", 32)
        self.assertTrue(tab.evaluate("explorer.pipeline.playing"))
        tab.press("ArrowRight", 39)
        self.assertFalse(tab.evaluate("explorer.pipeline.playing"))
        tab.press("ArrowDown", 40)
        self.assertEqual(tab.evaluate("explorer.pipeline.state.stage"), 1)
        self.assertTrue(tab.evaluate(f"kept === ({schedule})"))

    def test_names_of_schedules_fit(self):
        tab = self.open_schedule()
        fits = tab.evaluate("""(() => {
          const select = document.getElementById('kind');
          const context = document.createElement('canvas').getContext('2d');
          const { font, paddingLeft, paddingRight } = getComputedStyle(select);
          context.font = font;
          const widest = Math.max(...[...select.options].map(({ text }) => context.measureText(text).width));
          return select.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) - widest;
        })()""")
        self.assertGreaterEqual(fits, 0)


class ExplainerTest(PageTest):
    name = "explainer"
    DONE = """globalThis.explainer?.filled && explainer.figures.every((figure) =>
      !figure.frame && (figure.comparison?.done ?? true) && !figure.values.textContent.includes('…'))"""

    @classmethod
    def setUpClass(cls):
        """One tab for nearly all tests, because the curves take seconds."""
        super().setUpClass()
        cls.tab = cls.load("reduce")
        cls.tab.wait_for(cls.DONE)
        cls.states = cls.tab.evaluate("explainer.figures.map(({ state }) => ({ ...state }))")

    @classmethod
    def load(cls, motion: str):
        tab = cls.browser.open("about:blank")
        cls.emulate(tab, motion, "light")
        tab.call("Page.navigate", url=cls.page)
        tab.wait_for("globalThis.explainer")
        return tab

    @classmethod
    def emulate(cls, tab, motion: str, scheme: str) -> None:
        features = {"prefers-reduced-motion": motion, "prefers-color-scheme": scheme}
        tab.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )
        tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open(self, width=1280, height=800):
        """The tab as it was at first, at that width."""
        tab = self.tab
        tab.call("Page.bringToFront")  # tabs behind it draw nothing
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        self.emulate(tab, "reduce", "light")
        states = json.dumps(self.states)
        tab.evaluate(f"scrollTo(0, 0); explainer.figures.forEach((figure, i) => figure.change({states}[i]))")
        tab.wait_for(self.DONE)
        self.addCleanup(lambda: self.assertEqual(tab.errors(), []))
        return tab

    def readings(self, tab, figure: str) -> dict[str, float]:
        """Numbers of a figure's list, by their names; those that are none are left out."""
        rows = tab.evaluate(f"""Object.fromEntries([...document.querySelectorAll('#{figure} dd')].map(
          (e) => [e.dataset.name, Number(e.dataset.value)]).filter(([, v]) => Number.isFinite(v)))""")
        self.assertGreater(len(rows), 1)
        return rows

    def pictures(self, tab, figure: str) -> list[str]:
        tab.wait_for(self.DONE)
        return tab.evaluate(
            f"[...document.querySelectorAll('#{figure} canvas:not(.scale)')].map((c) => c.toDataURL())"
        )

    def test_numbers_in_the_text_are_the_programs(self):
        tab = self.open()
        found = tab.evaluate("""[...document.querySelectorAll('data')].map(
          (e) => [e.dataset.from, e.value, e.textContent, 'percent' in e.dataset])""")
        self.assertGreater(len(found), 20)
        for source, value, text, percent in found:
            with self.subTest(source):
                command, field = source.split(": ")
                name, *words = command.split()
                expected = program(name, **dict(word.split("=") for word in words))
                for key in field.split("."):
                    part = int(key) if key.isdigit() else key
                    expected = len(expected) if key == "length" else expected[part]
                self.close_to(float(value), expected, SEARCH if name == "optimum" else ROUNDINGS)
                shown = float(text.removesuffix(" %")) / (100 if percent else 1)
                self.close_to(shown, expected, 0.005 + SEARCH)

    def test_readings_of_figures_are_the_programs(self):
        tab = self.open()
        state = tab.evaluate("explainer.figures.map(({ root, state }) => [root.id, state])")
        state = dict(state)
        for figure, momentum in [("ball", 0), ("roots", 0), ("momentum", None)]:
            delay, rate = state[figure]["delay"], 10 ** state[figure]["rate"]
            at = {"rule": "sgdm", "delay": delay}
            at["momentum"] = 1 - 10 ** state[figure]["gap"] if momentum is None else momentum
            expected = program("stability", rate=repr(rate), **at) | program("boundary", **at)
            rows = self.readings(tab, figure)
            for name in rows.keys() & expected.keys():
                self.close_to(rows[name], expected[name], ROUNDINGS)
            self.assertIn("half_life_updates", rows)
        best = program("optimum", rule="sgdm", delay=state["momentum"]["delay"], condition=1000)
        rows = self.readings(tab, "momentum")
        self.close_to(rows["best_half_life_updates"], best["half_life_updates"], SEARCH)
        rows = self.readings(tab, "response")
        at = {"momentum": state["response"]["momentum"], "rate": 1, "steps": 60}
        delay = state["response"]["delay"]
        for name, rule, late in [("undelayed", "sgdm", 0), ("late", "sgdm", delay), ("repaired", "sc", delay)]:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "impulse.csv"
                words = [f"--{key}={value}" for key, value in at.items()]
                subprocess.run(
                    [PROGRAM, "simulate", f"--rule={rule}", f"--delay={late}", *words, "--impulse",
                     f"--out={out}"], check=True, capture_output=True)  # fmt: skip
                table = np.genfromtxt(out, delimiter=",", names=True)
            self.close_to(rows[name], table["weight"][delay + 1], ROUNDINGS)
        self.assertNotEqual(rows["late"], rows["repaired"])
        for figure, condition in [("conditions", state["conditions"]["condition"]), ("pipeline", 1000)]:
            rows = self.readings(tab, figure)
            late = rows.get("delay", state["conditions"]["delay"])
            for rule in ["sgdm", "sc", "lwp-v", "lwp-w+sc"]:
                best = program("optimum", rule=rule, delay=int(late), condition=condition)
                self.close_to(rows[rule], best["half_life_updates"], SEARCH)
            self.close_to(rows["limit"], best["limit_half_life_updates"], ROUNDINGS)

    def test_curves_are_the_programs(self):
        tab = self.open()
        for figure in ["conditions", "pipeline"]:
            curves = tab.evaluate(
                f"explainer.figures.find(({{ root }}) => root.id === '{figure}').comparison.found"
            )
            self.assertGreater(len(curves.pop("limit")), 8)
            for rule, points in curves.items():
                self.assertGreater(len(points), 8)
                for x, half_life in points[:: len(points) // 2]:
                    delay, condition = (4, x) if figure == "conditions" else (x - 1, 1000)
                    best = program("optimum", rule=rule, delay=delay, condition=condition)
                    self.close_to(half_life, best["half_life_updates"], SEARCH)

    def test_delays_of_the_pipeline_are_counted(self):
        tab = self.open()
        for stages in [2, 5, 34, 169]:
            expected = program("schedule", kind="pb", stages=stages, microbatches=8)["steady_delays"]
            for stage in [0, stages // 2, stages - 1]:
                tab.evaluate(f"explainer.figures.at(-1).change({{ stages: {stages}, stage: {stage} }})")
                tab.wait_for(self.DONE)
                rows = self.readings(tab, "pipeline")
                self.assertEqual((rows["delay"], rows["between"]), (expected[stage],) * 2)

    def test_every_slider_changes_its_figure_by_key(self):
        tab = self.open()
        sliders = tab.evaluate(
            "[...document.querySelectorAll('figure input')].map((e) => [e.closest('figure').id, e.id])"
        )
        self.assertEqual(len({figure for figure, _ in sliders}), 6)
        for figure, slider in sliders:
            with self.subTest(slider):
                before = self.pictures(tab, figure)
                tab.evaluate(f"document.getElementById('{slider}').focus()")
                tab.press("ArrowLeft", 37)
                self.assertNotEqual(self.pictures(tab, figure), before)

    def test_touch_moves_a_slider_and_the_map(self):
        tab = self.open(width=390, height=844)
        for selector, state in [("#roots-delay", "figures[1].state.delay"), (".map", "figures[2].state.rate")]:
            before = tab.evaluate(f"explainer.{state}")
            element = f"document.querySelector('{selector}')"
            tab.evaluate(f"{element}.scrollIntoView({{ block: 'center' }})")
            frame = tab.evaluate(f"{element}.getBoundingClientRect().toJSON()")
            where = {"x": frame["x"] + 0.7 * frame["width"], "y": frame["y"] + frame["height"] / 2}
            tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[where])
            tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            tab.wait_for(f"explainer.{state} !== {before}")

    def test_reads_at_both_widths_and_in_the_dark(self):
        for width, height in [(1280, 800), (390, 844)]:
            tab = self.open(width=width, height=height)
            drawn = {}
            for scheme in ["dark", "light"]:
                self.emulate(tab, "reduce", scheme)
                self.assertLessEqual(tab.evaluate("document.documentElement.scrollWidth"), width)
                first = tab.evaluate("document.querySelector('#ball canvas').getBoundingClientRect().bottom")
                self.assertLess(first, height)
                painted = tab.evaluate("""[...document.querySelectorAll('figure canvas')].map((c) =>
                  c.getContext('2d').getImageData(0, 0, c.width, c.height).data
                    .filter((v, i) => i % 4 === 3 && v).length)""")
                self.assertGreater(len(painted), 9)
                self.assertGreater(min(painted), 200)
                self.check_labels(tab)
                ids = tab.evaluate("explainer.figures.map(({ root }) => root.id)")
                drawn[scheme] = [p for figure in ids for p in self.pictures(tab, figure)]
            for light, dark in zip(drawn["light"], drawn["dark"], strict=True):
                self.assertNotEqual(light, dark)

    def test_moves_only_where_motion_is_welcome(self):
        still = self.open()
        before = still.evaluate("explainer.figures[0].state.now")
        self.assertFalse(still.evaluate("Boolean(explainer.figures[0].playing)"))
        moving = self.load("no-preference")
        moving.wait_for("explainer.figures[0].state.now > 1")
        # A page that is slow to start may have come to its end.
        moving.evaluate("explainer.figures[0].play(true)")
        moving.evaluate("document.querySelector('#ball .play').click()")
        paused = moving.evaluate("explainer.figures[0].state.now")
        moving.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertEqual(moving.evaluate("explainer.figures[0].state.now"), paused)
        self.assertEqual(still.evaluate("explainer.figures[0].state.now"), before)

    def test_needs_no_network(self):
        tab = self.open()
        self.assertEqual(tab.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)"), [])
        text = (ROOT / "build/figures/explainer.html").read_text()
        self.assertNotRegex(text, r"src=\"|<link (?!rel=\"icon\" href=\"data:)|@import|import\(|fetch\(")
