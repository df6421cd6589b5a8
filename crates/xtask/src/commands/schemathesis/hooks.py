"""Makes part of the generated requests real: most of what is generated from the document alone names a scene that is not
configured, a deadline that has passed or a flow that does not exist, and would never get past the first check."""

import datetime
import itertools
import os
import uuid

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
    amount = case.body.get("money", {}) if isinstance(case.body, dict) else {}
    if isinstance(amount.get("amount"), float):
        # 1200.0 is an integer to JSON Schema. Here it is none: amounts never touch a float.
        amount["amount"] = int(amount["amount"])
    number = next(COUNT)
    if number % 3 == 0:
        return
    if case.path_parameters and "flow_id" in case.path_parameters and FLOWS:
        # What is cancelled has ended, and can not be held any more: half of the flows are spared that.
        flows = FLOWS[: len(FLOWS) // 2] if case.operation.label.endswith("/cancel") else FLOWS
        case.path_parameters["flow_id"] = flows[number % len(flows)]
    if case.operation.label == "POST /payments" and "amount" in amount:
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)
        case.body.update(scene="renew", deadline=deadline.isoformat())
        amount.update(currency="CNY", amount=1 + amount["amount"] % 1_000_000)
        if number % 5:
            case.headers["Idempotency-Key"] = f"contract-{uuid.uuid4()}"
