"""The reference of `cargo xtask bench --parts recon`: DuckDB joins the same two files and counts what differs.

Arguments: the folder of both files, and a memory limit in MB (0: none)."""

import json
import resource
import sys
import time

import duckdb

folder, limit_mb = sys.argv[1], int(sys.argv[2])
started = time.monotonic()
connection = duckdb.connect()
if limit_mb:
    connection.execute(f"SET memory_limit = '{limit_mb}MB'")
connection.execute("SET preserve_insertion_order = false")
connection.execute(f"SET temp_directory = '{folder}/spill'")
orders, differing = connection.execute(
    f"""
    SELECT count(*), count(*) FILTER (
        WHERE b.no IS NULL OR f.no IS NULL OR b.amount <> f.amount OR b.currency <> f.currency
           OR b."user" <> f."user" OR b.ref <> f.ref OR abs(epoch(b.at) - f.at) > 600)
    FROM read_csv('{folder}/bill.csv') b FULL OUTER JOIN read_csv('{folder}/flows.csv') f ON b.no = f.no
    """
).fetchone()
all_ms = round((time.monotonic() - started) * 1000)
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"orders": orders, "differing": differing, "all_ms": all_ms, "peak_mb": peak_mb}))
