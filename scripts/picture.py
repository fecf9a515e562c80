"""Take the README's picture: the top of reports/report.html as a browser shows it. Run it as `make picture`.

Needs a Chromium or Chrome on the PATH.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPORT, PICTURE = ROOT / "reports" / "report.html", ROOT / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1280, 1500
"""CSS pixels: the decision, the plots and the head of the table."""


def main() -> None:
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        sys.exit(f"error: no browser found; install one of {', '.join(BROWSERS)}, for example `apt install chromium`")
    if not REPORT.exists():
        sys.exit(f"error: {REPORT.relative_to(ROOT)} is missing; `make repro` makes it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(REPORT.as_uri(), wait_until="networkidle")
        page.screenshot(path=PICTURE, animations="disabled")
        browser.close()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
