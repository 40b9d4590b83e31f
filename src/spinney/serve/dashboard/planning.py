"""The form that plans a pasted manifest: read in full or refused, answered in sentences, never applied."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

from spinney.core.view.forecast import Forecast
from spinney.serve.dashboard.pages import Desk
from spinney.serve.dashboard.seeing import Refused
from spinney.serve.dashboard.showing import Shown

MOST_BYTES = 256 * 1024
"""Of a manifest as it is sent."""
MOST_GANGS = 50
"""Of one workload; those that do not fit are shown first."""


def form(desk: Desk, text: str = "", answer: Forecast | Refused | None = None, status: int = 200) -> Shown:
    refused = answer.sentence if isinstance(answer, Refused) else ""
    forecast = answer if isinstance(answer, Forecast) else None
    values = {
        "text": text,
        "refused": refused,
        "forecast": forecast,
        "can_plan": desk.questions.plan is not None,
        "most_gangs": MOST_GANGS,
    }
    return Shown("Plan", "plan.html", lambda: values, status=status)


async def planned(desk: Desk, request: Request) -> Shown:
    body = await _body(request)
    if body is None:
        return form(desk, answer=Refused(f"a manifest of more than {MOST_BYTES // 1024} KiB is not read"), status=413)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=8)
    except ValueError:
        return form(desk, answer=Refused("this is not what the form sends"), status=400)
    text = fields.get("manifest", [""])[0].replace("\r\n", "\n")
    if not text.strip():
        return form(
            desk, answer=Refused("the manifest is empty: paste one or more objects as YAML or JSON"), status=400
        )
    if desk.questions.plan is None:
        return form(desk, text, Refused("planning is not available here"), status=503)
    return form(desk, text, await desk.questions.plan(text))


async def _body(request: Request) -> bytes | None:
    """None: there is more than will be read."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            return None
    return body
