"""Control Firefox and WebKitGTK by the commands of W3C WebDriver, without other packages.

Firefox accepts these commands on a socket (Marionette, its built-in protocol), WebKit's driver by
HTTP. The names of commands are those of Marionette.
"""

import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from tools.engines import SYSTEM_PYTHON, firefox

T = TypeVar("T")
PATIENCE = 60
"""Seconds after which an engine that does not answer is a failure."""
ARROW_RIGHT = "\ue014"
PATHS = {
    "Navigate": "url",
    "SetWindowRect": "window/rect",
    "ExecuteScript": "execute/sync",
    "PerformActions": "actions",
}
"""Where WebKit's driver accepts a command."""
REPORTED = """const storage = Cc["@mozilla.org/consoleAPI-storage;1"]
    .getService(Ci.nsIConsoleAPIStorage);
const written = storage.getEvents()
    .filter(({ level }) => ["error", "assert"].includes(level))
    .map((event) => `${event.filename}: ${[...event.arguments].join(" ")}`);
const found = Services.console.getMessageArray()
    .filter((message) => message instanceof Ci.nsIScriptError)
    .filter(({ flags, category }) => !(flags & 1) || category.startsWith("CSP"))
    .map((error) => `${error.sourceName}: ${error.errorMessage}`);
storage.clearEvents();
Services.console.reset();
return [...written, ...found].filter((text) => text.startsWith("http://127.0.0.1"));"""
"""What pages wrote to Firefox's console, and the errors that Firefox reported about them."""


class EngineError(RuntimeError):
    """An engine did not start, or reports that a command failed."""


def wait_for(what: str, find: Callable[[], T | None]) -> T:
    """The first result of ``find`` that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := find():
            return found
        time.sleep(0.05)
    raise EngineError(f"expected {what} within {PATIENCE} seconds")


class Engine:
    """A window of an engine. ``folder`` is the home of its processes; ``stack`` ends them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.log = stack.enter_context((folder / "log.txt").open("w+b"))

    def start(self, *arguments: str, display: str = "", **settings: Any) -> None:
        environment = os.environ | {"HOME": str(self.folder), "DISPLAY": display}
        process = subprocess.Popen(
            arguments, env=environment, stdout=self.log, stderr=self.log, **settings
        )
        self.stack.callback(process.wait, PATIENCE)
        self.stack.callback(process.terminate)

    def command(self, name: str, **parameters: Any) -> Any:
        raise NotImplementedError

    def resize(self, width: int, height: int) -> None:
        raise NotImplementedError

    def console(self) -> list[str]:
        """The errors of pages since the last call."""
        raise NotImplementedError

    def open(self, address: str, width: int, height: int) -> None:
        # The page before is not there when the size changes, and the same page is loaded again.
        self.command("Navigate", url="about:blank")
        self.resize(width, height)
        self.command("Navigate", url=address)

    def run(self, code: str) -> Any:
        """The result of the body of an asynchronous function."""
        return self.command("ExecuteScript", script=f"return (async () => {{{code}}})()", args=[])

    def press(self, key: str) -> None:
        steps = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self.command("PerformActions", actions=[{"type": "key", "id": "keys", "actions": steps}])


class Firefox(Engine):
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        (folder / "user.js").write_text('user_pref("marionette.port", 0);\n', "utf-8")
        flags = ("--headless", "--marionette", "--remote-allow-system-access", "--no-remote")
        self.start(firefox() or "firefox", *flags, "--profile", str(folder))
        chosen = folder / "MarionetteActivePort"
        port = wait_for("Firefox", lambda: chosen.exists() and chosen.read_text("utf-8"))
        connection = socket.create_connection(("127.0.0.1", int(port)), PATIENCE)
        self.stream = stack.enter_context(stack.enter_context(connection).makefile("rwb"))
        self.receive()
        self.command("NewSession")

    def receive(self) -> Any:
        """A message is JSON after its length and a colon."""
        length = b""
        while not length.endswith(b":"):
            length += self.stream.read(1)
        return json.loads(self.stream.read(int(length[:-1])))

    def command(self, name: str, **parameters: Any) -> Any:
        name = name if ":" in name else f"WebDriver:{name}"
        message = json.dumps([0, 1, name, parameters]).encode()
        self.stream.write(b"%d:%b" % (len(message), message))
        self.stream.flush()
        _, _, fault, result = self.receive()
        if fault:
            raise EngineError(f"{name}: {fault['message']}")
        return result.get("value", result)

    def resize(self, width: int, height: int) -> None:
        # Firefox's window cannot be as narrow as a phone, but the part with the page can.
        style = "".join(
            f"{bound}{side}: {size}px !important;"
            for side, size in (("width", width), ("height", height))
            for bound in ("", "min-", "max-")
        )
        change = "gBrowser.selectedBrowser.style = arguments[0]"
        self.command("Marionette:SetContext", value="chrome")
        self.command("ExecuteScript", script=change, args=[style])
        self.command("Marionette:SetContext", value="content")

    def console(self) -> list[str]:
        return self.command("ExecuteScript", script=REPORTED, args=[], sandbox="system")


class WebKit(Engine):
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        self.read = 0
        out, end = os.pipe()
        self.start("Xvfb", "-displayfd", str(end), "-screen", "0", "1600x1400x24", pass_fds=[end])
        os.close(end)
        with open(out, encoding="ascii") as numbers:
            display = f":{numbers.readline().strip()}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/session"
        self.start("WebKitWebDriver", "-p", str(port), display=display)
        options = {"binary": SYSTEM_PYTHON, "args": [str(Path(__file__).parent / "window.py")]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        session = wait_for("WebKit's driver", lambda: self.begin(wanted))
        self.address += f"/{session['sessionId']}"

    def begin(self, wanted: dict[str, Any]) -> Any:
        try:
            return self.post("", {"capabilities": wanted})
        except urllib.error.URLError:  # it does not listen yet
            return None

    def post(self, path: str, parameters: dict[str, Any]) -> Any:
        data = json.dumps(parameters).encode()
        try:
            with urllib.request.urlopen(self.address + path, data, PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            with problem:
                raise EngineError(f"{path}: {problem.read().decode()}") from problem

    def command(self, name: str, **parameters: Any) -> Any:
        return self.post(f"/{PATHS[name]}", parameters)

    def resize(self, width: int, height: int) -> None:
        self.command("SetWindowRect", width=width, height=height)

    def console(self) -> list[str]:
        written = (self.folder / "log.txt").read_bytes()
        new, self.read = written[self.read :].decode(), len(written)
        return re.findall(r"^http://127.*: CONSOLE (?:\w+ )*ERROR .*$", new, re.MULTILINE)


ENGINES = {"Firefox": Firefox, "WebKitGTK": WebKit}
