# SPDX-License-Identifier: Apache-2.0
"""The entities that a configuration file declares: what ``Namespace(config=...)`` reads and creates.

The file is the ``config.json`` of the Azure Service Bus emulator; docs/guide/configuration-files.md describes it.
"""

from oxbus._configuration._declared import Configuration
from oxbus._configuration._reader import read_configuration

__all__ = ["Configuration", "read_configuration"]
