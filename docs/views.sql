-- SPDX-License-Identifier: Apache-2.0
-- DuckDB views of a dataset that `toll export --dataset DIR` wrote (docs/dataset.md).
--
--     cd DIR && duckdb -init PATH/views.sql
--
-- The paths are relative: SET file_search_path = 'DIR' does the same without cd.

-- The last two folders of a path name machine and day. DuckDB would read a folder above the dataset as a column too.
CREATE OR REPLACE MACRO of_table(files) AS TABLE
  SELECT * EXCLUDE (filename), regexp_extract(filename, '/machine=([^/]*)/day=[^/]*/[^/]*$', 1) AS machine,
    TRY_CAST(regexp_extract(filename, '/day=([^/]*)/[^/]*$', 1) AS DATE) AS day
  FROM read_parquet(files, hive_partitioning = false, union_by_name = true, filename = true);
CREATE OR REPLACE VIEW rows AS FROM of_table('rows/*/*/*.parquet');
CREATE OR REPLACE VIEW samples AS FROM of_table('samples/*/*/*.parquet');
CREATE OR REPLACE VIEW tolls AS FROM of_table('tolls/*/*/*.parquet');
CREATE OR REPLACE VIEW findings AS FROM of_table('findings/*/*/*.parquet');
CREATE OR REPLACE VIEW machines AS FROM of_table('machines/*/*/*.parquet');

-- The rows that have a number, of the last run of each machine that has the row in the same state of the core.
CREATE OR REPLACE VIEW latest AS
  FROM rows
  WHERE status = 'ok'
  QUALIFY row_number() OVER (
    PARTITION BY machine, key ORDER BY started DESC) = 1;

-- Two machines: the ratio of each row that both have, the largest first.
-- The interval is that of two independent estimates, whose half-widths in logarithms add as squares.
CREATE OR REPLACE MACRO two_machines(first, second) AS TABLE
  SELECT a.probe, a.abi, a.target, a.parameters, a.metric, a.unit, b.median / a.median AS ratio,
    sqrt(ln(a.high / a.low) ** 2 + ln(b.high / b.low) ** 2) / 2 AS half_width,
    ratio * exp(-half_width) AS ratio_low, ratio * exp(half_width) AS ratio_high
  FROM latest AS a JOIN latest AS b USING (key)
  WHERE a.machine = first AND b.machine = second AND a.median > 0 AND b.median > 0
    AND a.low > 0 AND b.low > 0 AND isfinite(a.high) AND isfinite(b.high)
  ORDER BY abs(ln(ratio)) DESC;
