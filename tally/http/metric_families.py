"""Families of /metrics from plain integers: counters, gauges and histograms in the classes of Prometheus' client.

Components count in plain integers; the families are made when /metrics is requested. Imported after the server listens,
since the client takes some time to load.
"""

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tally.latency_histogram import Histogram


def by_code(name: str, help: str, numbers: Mapping[str, int]) -> Metric:
    """Return a family of counters by error code."""
    family = CounterMetricFamily(name, help, labels=["code"])
    for code, number in sorted(numbers.items()):
        family.add_metric([code], number)
    return family


def histogram(name: str, help: str, histogram: Histogram, unit: float = 1) -> Metric:
    """Return a family with one histogram, in `unit`s of its numbers."""
    counts, total = buckets(histogram, unit)
    return HistogramMetricFamily(name, help, buckets=counts, sum_value=total)


def buckets(histogram: Histogram, unit: float) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative buckets, as Prometheus has them, and the total."""
    counts: Iterable[int] = histogram.counts
    so_far, reached = 0, list[tuple[str, float]]()
    for bound, number in zip((*histogram.bounds, None), counts, strict=True):
        so_far += number
        reached.append(("+Inf" if bound is None else f"{bound / unit:g}", float(so_far)))
    return reached, histogram.total / unit


def counter(name: str, help: str, value: float) -> Metric:
    """Return a family with one counter."""
    return CounterMetricFamily(name, help, value=value)


def gauge(name: str, help: str, value: float) -> Metric:
    """Return a family with one gauge."""
    return GaugeMetricFamily(name, help, value=value)
