"""Makes part of the generated requests real: most of what is generated from the document alone names a scene that is not
configured, a deadline that has passed or a flow that does not exist, and would never get past the first check."""

import datetime
import itertools
import os

import schemathesis
from schemathesis.generation import GenerationMode

COUNT = itertools.count()
FLOWS = [flow for flow in os.environ.get("PAY_FLOWS", "").split(",") if flow]


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context, case, kwargs):
    if not is_positive(case):
        return
    number = next(COUNT)
    if number % 3 == 0:
        return
    if case.path_parameters and "flow_id" in case.path_parameters and FLOWS:
        case.path_parameters["flow_id"] = FLOWS[number % len(FLOWS)]
    if case.operation.label == "POST /payments" and isinstance(case.body, dict):
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)
        case.body["scene"] = "renew"
        case.body["deadline"] = deadline.isoformat()
        money = case.body.get("money")
        if isinstance(money, dict) and isinstance(money.get("amount"), int):
            money["currency"] = "CNY"
            money["amount"] = 1 + money["amount"] % 1_000_000
