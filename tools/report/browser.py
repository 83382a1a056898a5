"""Usage: python3 tools/report/browser.py FOLDER [MODULES]

Works on the pages in FOLDER (tools/report/pages.R makes them) in Chromium, by keys and mouse, and
writes the R calls that they give, with the populations that they show, to NAME-STEP.R and .json.
MODULES is a folder node_modules with axe-core. The last line is the number of tests that passed."""

import json
import os
import pathlib
import random
import re
import shutil
import sys
import time
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

FOLDER = pathlib.Path(sys.argv[1]).resolve()
AXE = pathlib.Path(sys.argv[2], "axe-core/axe.min.js") if len(sys.argv) > 2 else None

# Names that R and HTML must take as they are; no emoji, which the driver cannot type.
NAMES = ["\u03b3\u03b4 T \u7d30\u80de", "</script><script>alert(1)</script>", "a\\b \"c\" & <d>"]

# The seed of random steps, another one every day.
SEED = int(os.environ.get("PROPTEST_RNG_SEED") or time.strftime("%Y%m%d", time.gmtime()))

PAGES = ["lymphocytes", "hostile", "single"]


def first_of(names):
    return next(path for name in names if (path := shutil.which(name)))


def new_driver():
    options = webdriver.ChromeOptions()
    options.binary_location = first_of(["chromium", "google-chrome", "chromium-browser"])
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1400,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(first_of(["chromedriver"])), options=options)
    driver.set_page_load_timeout(60)
    return driver


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = new_driver()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def setUp(self):
        self.device(1400, False)

    def tearDown(self):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        errors = [it["message"] for it in self.driver.get_log("browser")]
        self.assertEqual(errors, [])

    def device(self, width, is_phone):
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": is_phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, name):
        self.driver.get("about:blank")
        self.driver.get((FOLDER / f"{name}.html").as_uri())

    def run_js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.one(selector).get_property("textContent")

    def rows(self, attribute):
        return [row.get_attribute(attribute) for row in self.all("#tree [role=treeitem]")]

    def focused(self):
        return self.run_js("return document.activeElement.getAttribute('data-branch')")

    def populations(self):
        """The populations of the page by number: name, and ids of the branches."""
        return self.run_js("""
            const ids = JSON.parse(document.getElementById("content").textContent).branches.id;
            const found = {};
            for (const row of document.querySelectorAll("#tree [role=treeitem]")) {
              const number = row.querySelector(".number")?.textContent;
              if (!number) continue;
              found[number] ??= {
                number: Number(number), ids: [],
                name: row.querySelector(".text")?.textContent ?? "",
              };
              found[number].ids.push(ids[row.dataset.branch - 1]);
            }
            return Object.values(found);""")

    def keep(self, step):
        """Writes the R calls of the page, and its populations, to replay them."""
        (FOLDER / f"{step}.R").write_text(self.text("#code"), encoding="utf-8")
        (FOLDER / f"{step}.json").write_text(json.dumps(self.populations()), encoding="utf-8")

    # ---- work by keys and mouse -----------------------------------------------------------------

    def test_branches_are_opened_named_merged_and_replayed_by_keys(self):
        self.open("lymphocytes")
        self.keep("lymphocytes-begin")
        before = self.populations()
        self.run_js("document.querySelector('#tree [tabindex=\"0\"]').focus()")
        self.press(Keys.END)
        # The last end that can be opened.
        while self.run_js("return document.activeElement.ariaExpanded") != "false":
            self.press(Keys.UP)
        branch = self.focused()
        self.press(Keys.RIGHT)
        self.assertEqual(len(self.populations()), len(before) + 1)
        self.assertEqual(self.focused(), branch)
        self.assertEqual(self.rows("aria-selected").count("true"), 2, "its parts are compared")
        self.press(Keys.DOWN, Keys.ESCAPE, Keys.SPACE, "n")
        self.assertEqual(self.run_js("return document.activeElement.id"), "name")
        self.press(NAMES[0], Keys.ENTER)
        self.assertIn(NAMES[0], [it["name"] for it in self.populations()])
        self.assertNotEqual(self.focused(), None)
        self.press(Keys.DOWN, Keys.ESCAPE, Keys.SPACE, Keys.HOME)
        while self.run_js("return document.activeElement.ariaExpanded") == "true":
            self.press(Keys.DOWN)
        self.press(Keys.SPACE, "m")
        self.assertEqual(len(self.populations()), len(before))
        self.assertEqual(max(len(it["ids"]) for it in self.populations()), 2)
        self.press("n", NAMES[1], Keys.ENTER)
        self.keep("lymphocytes-keys")
        self.press("u")
        self.assertEqual(len(self.populations()), len(before) + 1)
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys("z").key_up(
            Keys.CONTROL).perform()
        self.assertEqual(len(self.populations()), len(before))
        self.press(Keys.END, Keys.ESCAPE, Keys.SPACE, "x")
        self.assertEqual(sum(len(it["ids"]) for it in self.populations()), len(before))
        self.assertIn("left out", self.rows("textContent")[-1])
        self.keep("lymphocytes-out")
        shown = self.populations()
        self.driver.refresh()
        self.assertEqual(self.populations(), shown, "a reload keeps the state")

    def test_branches_are_opened_named_merged_and_replayed_by_mouse(self):
        self.open("lymphocytes")
        code = self.text("#code")
        ends = [row for row in self.all("#tree [role=treeitem]")
                if row.get_attribute("aria-expanded") != "true"]
        ends[0].click()
        ActionChains(self.driver).key_down(Keys.CONTROL).click(ends[1]).click(ends[-1]).key_up(
            Keys.CONTROL).perform()
        self.assertEqual(self.rows("aria-selected").count("true"), 3)
        self.one("#merge").click()
        self.one("#name").send_keys(NAMES[2])
        self.one("#name-form button").click()
        merged = [it for it in self.populations() if it["name"] == NAMES[2]]
        self.assertEqual([len(it["ids"]) for it in merged], [3])
        self.keep("lymphocytes-mouse")
        self.one("#separate").click()
        self.one(".row[aria-expanded=false] .twisty").click()
        self.keep("lymphocytes-opened")
        for _ in range(4):
            self.one("#undo").click()
        self.assertEqual(self.text("#code"), code)
        self.assertFalse(self.one("#undo").is_enabled())
        self.one("#redo").click()
        self.assertNotEqual(self.text("#code"), code)

    def test_a_number_of_populations_is_opened_by_form_and_picture(self):
        self.open("lymphocytes")
        number = self.one("#number")
        number.clear()
        number.send_keys("9", Keys.ENTER)
        self.assertEqual(len(self.populations()), 9)
        self.assertIn("k = 9\n", self.text("#code"))
        self.keep("lymphocytes-number")
        ActionChains(self.driver).click(self.all("#bands .column")[2]).perform()
        self.assertEqual(len(self.populations()), 3)
        number = self.one("#number")
        number.clear()
        number.send_keys("9999", Keys.ENTER)
        self.assertIn("must be from 1 to", self.text("#message"))
        self.assertEqual(len(self.populations()), 3)

    def test_names_that_r_refuses_are_refused(self):
        self.open("lymphocytes")
        self.all("#tree [role=treeitem]")[-1].click()
        for name in ["none", "12", " 7 "]:
            self.one("#name").clear()
            self.one("#name").send_keys(name, Keys.ENTER)
            self.assertNotEqual(self.text("#message"), "")
            self.assertEqual({it["name"] for it in self.populations()}, {""})

    def test_the_calls_are_copied(self):
        self.open("lymphocytes")
        self.driver.execute_cdp_cmd("Browser.grantPermissions", {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        self.one("#copy").click()
        deadline = time.monotonic() + 10
        while not self.text("#message") and time.monotonic() < deadline:
            time.sleep(0.05)
        copied = self.driver.execute_async_script(
            "navigator.clipboard.readText().then(arguments[0], () => arguments[0](null))")
        if copied is None:
            copied = self.run_js("return getSelection().toString()")
        self.assertEqual(copied.strip(), self.text("#code").strip())

    def test_the_selection_is_shown(self):
        self.open("lymphocytes")
        self.assertEqual(len(self.all("#densities figure")), 14)
        curves = len(self.all("#densities figure:first-child .curve"))
        self.assertEqual(curves, len(self.populations()))
        self.all("#tree [role=treeitem]")[-1].click()
        self.assertEqual(len(self.all("#densities figure:first-child .curve")), 1)
        self.assertEqual(len(self.all("#scatter .dots")), 2)
        picture = self.one("#scatter .all-dots").get_attribute("d")
        self.one("#across option:nth-child(5)").click()
        self.assertNotEqual(self.one("#scatter .all-dots").get_attribute("d"), picture)
        self.assertEqual(len(self.all("#shares tbody tr")), 3 + 20)
        self.assertEqual(len(self.all("#numbers tbody tr")), 14)

    def test_branches_show_their_support(self):
        self.open("lymphocytes")
        shown = [text for text in self.rows("textContent") if re.search(r"support \d+%", text)]
        self.assertGreater(len(shown), 3)
        about = "return document.getElementById('about-support').hidden"
        self.assertFalse(self.run_js(about))
        self.open("single")
        self.assertTrue(self.run_js(about))

    def test_random_steps_are_replayed_and_undone(self):
        """Steps of all kinds on random branches."""
        for name in ["lymphocytes", "hostile"]:
            random.seed(SEED)
            self.open(name)
            begin = self.text("#code")
            for turn in range(5):
                for _ in range(8):
                    self.random_step()
                if self.populations():
                    self.keep(f"{name}-random{turn}")
            self.run_js("""
                const undo = document.getElementById("undo");
                while (!undo.disabled) undo.click();""")
            self.assertEqual(self.text("#code"), begin)

    def random_step(self):
        self.run_js("""
            const [picks, key, name] = arguments;
            const rows = [...document.querySelectorAll("#tree [role=treeitem]")];
            picks.forEach((pick, i) => rows[Math.floor(pick * rows.length)].dispatchEvent(
              new MouseEvent("click", { bubbles: true, ctrlKey: i > 0 })));
            if (key === "name") {
              document.getElementById("name").value = name;
              document.querySelector("#name-form button").click();
            } else {
              const ctrlKey = key.startsWith("ctrl-");
              document.activeElement.dispatchEvent(new KeyboardEvent("keydown",
                { key: key.replace("ctrl-", ""), ctrlKey, bubbles: true }));
            }""",
                    [random.uniform(0.2, 1) for _ in range(random.choice([1, 1, 2, 3]))],
                    random.choice(["Enter", "Enter", "Enter", "m", "u", "x", "name", "name",
                                   "ctrl-z", "ctrl-y", "ArrowLeft"]),
                    random.choice(["", *NAMES, "b", "none", "3"]))

    # ---- every page -----------------------------------------------------------------------------

    def test_pages_begin_with_the_populations_that_they_got(self):
        for name in PAGES:
            self.open(name)
            self.keep(f"{name}-begin")
        self.assertEqual(len(self.populations()), 1)

    def test_names_are_never_html(self):
        self.open("hostile")
        self.assertEqual(self.run_js("return document.images.length"), 0)
        self.assertEqual(self.run_js("return document.scripts.length"), 2)
        self.assertIn("</script><script>alert(1)</script>", self.text("#tree"))
        self.assertIn("<img src=x onerror=alert(1)>", self.text("#shares"))
        self.assertEqual(self.driver.title, "Hostile <b>names</b> & \u7d30\u80de")

    def test_an_address_of_other_pages_is_no_state(self):
        for state in ["[[999],[],[],[]]", "[[],[],[[2,\"none\"]],[]]", "%", "7"]:
            self.driver.get("about:blank")
            self.driver.get((FOLDER / "single.html").as_uri() + "#" + state)
            self.assertEqual(len(self.populations()), 1)

    def test_pages_ask_for_nothing(self):
        self.driver.get_log("performance")
        for name in PAGES:
            self.open(name)
        messages = [json.loads(it["message"])["message"]
                    for it in self.driver.get_log("performance")]
        asked = {it["params"]["request"]["url"].split("#")[0] for it in messages
                 if it["method"] == "Network.requestWillBeSent"}
        own = {(FOLDER / f"{name}.html").as_uri() for name in PAGES}
        self.assertEqual(asked - {"about:blank"}, own)

    def test_the_policy_stops_scripts_styles_and_requests(self):
        self.open("single")
        stopped = self.driver.execute_async_script("""
            const [done] = arguments, found = [];
            document.addEventListener("securitypolicyviolation",
              (event) => found.push(event.effectiveDirective));
            const add = (tag, text) => {
              const node = document.createElement(tag);
              node.textContent = text;
              document.body.append(node);
            };
            add("script", "window.ran = true");
            add("style", "body { display: none }");
            fetch("https://example.org/").catch(() => {});
            setTimeout(() => done([...found, Boolean(window.ran)]), 200);""")
        self.assertEqual(sorted(stopped[:-1]), ["connect-src", "script-src-elem", "style-src-elem"])
        self.assertFalse(stopped[-1])
        self.driver.get_log("browser")

    def test_pages_fit_a_phone_and_print(self):
        for name in PAGES:
            self.device(360, True)
            self.open(name)
            self.assertLessEqual(self.run_js("return document.documentElement.scrollWidth"), 360)
            self.device(1400, False)
            pdf = self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
            self.assertGreater(len(pdf), 10_000)

    @unittest.skipUnless(AXE, "axe-core is not there")
    def test_pages_are_accessible_in_light_and_dark(self):
        for name in PAGES:
            for scheme in ["light", "dark"]:
                self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                    "features": [{"name": "prefers-color-scheme", "value": scheme}]})
                self.open(name)
                self.all("#tree [role=treeitem]")[-1].click()
                self.run_js(AXE.read_text(encoding="utf-8"))
                found = self.driver.execute_async_script("""
                    axe.run().then((it) => arguments[0](it.violations.map((rule) =>
                      [rule.id, rule.help, rule.nodes.slice(0, 3).map((node) => node.html)])))""")
                self.assertEqual(found, [], f"{name}, {scheme}")


if __name__ == "__main__":
    print(f"random steps with PROPTEST_RNG_SEED={SEED}")
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    print(result.testsRun - len(result.skipped))
    sys.exit(not result.wasSuccessful())
