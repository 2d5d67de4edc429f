"""A window with nothing but a page, which WebKitWebDriver controls; the system's Python runs it.

WebKitGTK's own browser cannot be as narrow as a phone. What a page writes to the console goes to
the standard output.
"""

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("WebKit2", "4.1")
from gi.repository import Gtk, WebKit2  # noqa: E402


def window(session: WebKit2.AutomationSession) -> WebKit2.WebView:
    settings = WebKit2.Settings(
        enable_write_console_messages_to_stdout=True,
        hardware_acceleration_policy=WebKit2.HardwareAccelerationPolicy.NEVER,
    )
    view = WebKit2.WebView(web_context=context, is_controlled_by_automation=True, settings=settings)
    frame = Gtk.Window(decorated=False)
    frame.add(view)
    frame.show_all()
    return view


context = WebKit2.WebContext.get_default()
context.set_automation_allowed(True)
context.connect("automation-started", lambda _, session: session.connect("create-web-view", window))
Gtk.main()
