"""A page under observation: what it complains about, and whom it talks to."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request


class Visit:
    """`expected`: statuses of answers that a test asks for on purpose; browsers write them to the console."""

    def __init__(self, site: str, page: Page) -> None:
        self.site = site
        self.page = page
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.expected: set[int] = set()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        page.on("request", self._follow)

    def _note(self, message: ConsoleMessage) -> None:
        is_expected = any(f"status of {status}" in message.text for status in self.expected)
        if message.type in ("error", "warning") and not is_expected:
            self.complaints.append(message.text)

    def _follow(self, request: Request) -> None:
        host = urlsplit(request.url)
        if host.scheme != "data" and host.netloc != urlsplit(self.site).netloc:
            self.strangers.append(request.url)

    def check(self) -> None:
        assert self.complaints == []
        assert self.strangers == []
