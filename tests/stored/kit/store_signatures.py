# SPDX-License-Identifier: Apache-2.0
"""Signatures of requests to an emulator: AWS's version 4, and the shared key of Azure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

AZURE_VERSION: Final = "2021-08-06"


def s3_headers(
    host: str,
    path: str,
    options: Mapping[str, str],
    payload: bytes = b"",
    *,
    method: str = "PUT",
    query: str = "",
    **conditions: str,
) -> dict[str, str]:
    """Return the headers of a request, with its signature; `options` are those of the store."""
    digest, moment = hashlib.sha256(payload).hexdigest(), time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {"host": host, **conditions, "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
    scope = f"{moment[:8]}/{options['region']}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{options['secret_access_key']}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={options['access_key_id']}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 {credential}"}


def azure_headers(
    account: str,
    key: str,
    path: str,
    *,
    method: str = "PUT",
    query: str = "",
    length: str = "",
    if_none_match: str = "",
    **more: str,
) -> dict[str, str]:
    """Return the headers of a request, with its signature. Each parameter of `query` is a line, `name:value`."""
    headers = {**more, "x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_VERSION}
    lines = [method, "", "", length, "", "", "", "", "", if_none_match, "", ""]
    lines += [f"{name}:{headers[name]}" for name in sorted(headers)]
    text = "\n".join([*lines, f"/{account}{path}{query}"])
    digest = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    return {**headers, "authorization": f"SharedKey {account}:{digest}"}
