"""Candidates on many machines: any executor of `concurrent.futures`, or a scheduler of Dask's.

What is run leaves this process as a `ClusterJob` (`jobs`), whose process on the other side belongs
to it alone, so that a candidate that crashes or hangs costs itself. An engine (`engines`, `dask`)
carries jobs to where they may run (`hosts`) and back. `work` asks jobs as if they ran here.
"""
