"""FaultAt codes: why a scan of lines stopped, as numbers that compiled code returns."""

from __future__ import annotations

#: `fault_errors` has the message of each fault.
NO_FAULT = 0
FEW_COLUMNS = 1
MANY_COLUMNS = 2
BAD_ID = 3
NEGATIVE_ID = 4
HUGE_ID = 5
ID_OUT_OF_RANGE = 6
BAD_WEIGHT = 7
NOT_FINITE = 8
WRONG_LETTER = 9
BAD_COORDINATE = 10
NO_COORDINATE_ROW = 11
NO_WEIGHT = 12
NO_VERTEX_WEIGHTS = 13
#: Found after the scan, when strings are created.
BAD_UTF8 = 14
ZERO_LED_ID = 15
#: Found after the scan, in weights that a slower parser reads.
UNDERFLOW = 16
INEXACT_INTEGER = 17
NOT_SCALED = 18

#: The mode that the weights need if one of them is not an int64.
NEED_UNSIGNED = 20
NEED_FLOAT = 21
