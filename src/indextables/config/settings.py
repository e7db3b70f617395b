"""All settings: key, kind, bounds, default and meaning.

`store_settings` has the settings of stores and their credentials. `ALL` and `FAMILIES` contain the settings of both
modules, in their order.
"""

from __future__ import annotations

from indextables.config import store_settings
from indextables.config.setting import (
    Family,
    Setting,
    choice,
    duration,
    ratio,
    size,
    switch,
    whole,
)
from indextables.config.values import Choice, Int, Maybe, Names, Text

# Transactions

TRANSACTION_RETRY_TIMEOUT_SECONDS = duration(
    "transaction.retry.timeoutSeconds",
    "Time after which a commit is given up if other writers always commit first.",
    default=600,
    unit="seconds",
)
TRANSACTION_RETRY_MAX_ATTEMPTS = whole(
    "transaction.retry.maxAttempts",
    "Most attempts to find out the result of a request that was not answered. If it is set: also the most attempts to "
    "commit while other writers commit first.",
    default=10,
)
TRANSACTION_RETRY_BASE_DELAY_MS = duration(
    "transaction.retry.baseDelayMs",
    "Pause after the first request that was not answered; it doubles each time. With 0, commits do not wait for others "
    "either; otherwise they wait by the number of writers and the duration of requests.",
    default=100,
    unit="ms",
)
TRANSACTION_RETRY_MAX_DELAY_MS = duration(
    "transaction.retry.maxDelayMs", "Longest pause between two attempts to commit.", default=5000, unit="ms"
)
TRANSACTION_COMPRESSION_ENABLED = switch(
    "transaction.compression.enabled", "Write version files with gzip; both forms are always read.", default=True
)
TRANSACTION_CACHE_ENABLED = switch("transaction.cache.enabled", "Cache log entries in memory.", default=True)
TRANSACTION_CACHE_EXPIRATION_SECONDS = duration(
    "transaction.cache.expirationSeconds",
    "Time that unused log entries stay in memory; it never changes the result of a read.",
    default=300,
    unit="seconds",
)
TRANSACTION_USE_OPTIMIZED = switch(
    "transaction.useOptimized",
    "Read the log in parallel and through caches; `false` reads it sequentially.",
    default=True,
)

# Checkpoints

CHECKPOINT_ENABLED = switch("checkpoint.enabled", "Write checkpoints automatically.", default=True)
CHECKPOINT_INTERVAL = whole("checkpoint.interval", "Commits from one automatic checkpoint to the next.", default=10)
CHECKPOINT_PARALLELISM = whole("checkpoint.parallelism", "Version files read or written in parallel.", default=4)
CHECKPOINT_READ_TIMEOUT_SECONDS = duration(
    "checkpoint.read.timeoutSeconds", "Longest wait for a parallel read of the log.", default=30, unit="seconds", low=1
)
CHECKPOINT_RETENTION = whole("checkpoint.retention", "Versions before a checkpoint that clean-up keeps.", default=30)
CHECKPOINT_COMPRESSION = choice(
    "checkpoint.compression",
    "Codec of Parquet checkpoints.",
    default="snappy",
    others=("zstd", "gzip", "lz4", "brotli", "none"),
)
CHECKPOINT_MAX_FILE_SIZE = size(
    "checkpoint.maxFileSize", "A JSON checkpoint larger than this is written in parts.", default="128M"
)
CHECKPOINT_RETENTION_DURATION = duration(
    "checkpointRetention.duration", "Time that clean-up keeps superseded checkpoints.", default=7_200_000, unit="ms"
)
LOG_RETENTION_DURATION = duration(
    "logRetention.duration",
    "Time that version files are kept; the longest of all retention keys that are set wins.",
    default=2_592_000_000,
    unit="ms",
)
CLEANUP_ENABLED = switch("cleanup.enabled", "Clean up old log files after a checkpoint.", default=True)
CLEANUP_FAILURE_POLICY = choice(
    "cleanup.failurePolicy",
    "Skip a file that cannot be deleted, or end the clean-up with an error.",
    default="continue",
    others=("fail",),
)
CLEANUP_DRY_RUN = switch(
    "cleanup.dryRun", "Report the files that clean-up would delete, and delete nothing.", default=False
)

# State

STATE_FORMAT = choice("state.format", "Format of new checkpoints.", default="avro", others=("json", "parquet"))
STATE_COMPRESSION = choice("state.compression", "Codec of Avro manifests.", default="zstd", others=("snappy", "none"))
STATE_COMPRESSION_LEVEL = whole("state.compressionLevel", "Level of zstd compression.", default=3, high=22)
STATE_ENTRIES_PER_MANIFEST = whole("state.entriesPerManifest", "Most file entries in one manifest.", default=50_000)
STATE_READ_PARALLELISM = whole("state.read.parallelism", "Manifests read in parallel.", default=8)
STATE_READ_MAX_FILES = whole(
    "state.read.maxFiles",
    "Most files of a table that are read when it is opened. Those of a larger table are read when they are needed, "
    "manifest by manifest; in Spark, tasks read them.",
    default=200_000,
)
STATE_SCHEMA_RENORMALIZE_THRESHOLD = whole(
    "state.schema.renormalizeThreshold",
    "Number of different doc mappings above which they are merged again.",
    default=5,
)
STATE_COMPACTION_TOMBSTONE_THRESHOLD = ratio(
    "state.compaction.tombstoneThreshold", "Share of removed entries above which a state is compacted.", default=0.10
)
STATE_COMPACTION_MAX_MANIFESTS = whole(
    "state.compaction.maxManifests",
    "Manifests in excess of a compacted state's, above which a state is compacted.",
    default=20,
)
STATE_COMPACTION_LARGE_REMOVE_THRESHOLD = Setting[int | None](
    "state.compaction.largeRemoveThreshold",
    Maybe(Int(low=1), "none"),
    None,
    "Files removed by one commit above which the state is compacted.",
)
STATE_COMPACTION_AFTER_MERGE = switch(
    "state.compaction.afterMerge", "Compact the state after a merge of splits.", default=True
)
STATE_RETENTION_VERSIONS = whole("state.retention.versions", "Old states that are kept at any age.", default=2)
STATE_RETENTION_HOURS = duration("state.retention.hours", "Time that old states are kept.", default=168, unit="hours")
STATE_GC_MIN_MANIFEST_AGE_HOURS = duration(
    "state.gc.minManifestAgeHours", "Younger manifests are never collected as garbage.", default=1, unit="hours", low=1
)
STATE_FILTERS = choice(
    "state.filters",
    "Filter sheets, which leave splits out of a search by few requests. `auto` writes and reads them in object stores, "
    "`on` also on local disk, `off` nowhere.",
    default="auto",
    others=("on", "off"),
)
STATE_FILTERS_MIN_SPLITS = whole(
    "state.filters.minSplits", "Least number of splits for which a filter sheet is written or asked.", default=1000
)
STATE_FILTERS_MAX_SIZE = size("state.filters.maxSize", "Most bytes of a filter sheet.", default="4G")
STATE_RETRY_MAX_ATTEMPTS = whole("state.retry.maxAttempts", "Most attempts to commit a compacted state.", default=10)
STATE_RETRY_BASE_DELAY_MS = duration(
    "state.retry.baseDelayMs",
    "Pause before the second of these attempts; it doubles each time.",
    default=100,
    unit="ms",
)
STATE_RETRY_MAX_DELAY_MS = duration(
    "state.retry.maxDelayMs", "Longest pause between two of these attempts.", default=5000, unit="ms"
)

# Statistics

STATS_TRUNCATION_ENABLED = switch("stats.truncation.enabled", "Shorten long text in column statistics.", default=True)
STATS_TRUNCATION_MAX_LENGTH = whole(
    "stats.truncation.maxLength", "Characters of a text that statistics contain.", default=32
)
DATA_SKIPPING_NUM_INDEXED_COLS = whole(
    "dataSkippingNumIndexedCols", "Number of leading columns with statistics; -1 means all, 0 none.", default=32, low=-1
)
DATA_SKIPPING_STATS_COLUMNS = Setting[tuple[str, ...] | None](
    "dataSkippingStatsColumns",
    Maybe(Names(), "all"),
    None,
    "Names of the columns with statistics; with `all`, `dataSkippingNumIndexedCols` decides.",
)

# Purge

PURGE_DEFAULT_RETENTION_HOURS = duration(
    "purge.defaultRetentionHours", "Age below which an orphaned file is kept.", default=168, unit="hours"
)
PURGE_MIN_RETENTION_HOURS = duration(
    "purge.minRetentionHours", "Shortest retention that PURGE accepts.", default=24, unit="hours"
)
PURGE_RETENTION_CHECK_ENABLED = switch(
    "purge.retentionCheckEnabled", "Refuse a retention below `purge.minRetentionHours`.", default=True
)
PURGE_TX_LOG_RETENTION_HOURS = duration(
    "purge.txLogRetentionHours",
    "Time that version files are kept; the longest of all retention keys that are set wins.",
    default=720,
    unit="hours",
)
PURGE_MAX_FILES_TO_DELETE = whole("purge.maxFilesToDelete", "Most files that one PURGE deletes.", default=1_000_000)
PURGE_DELETE_RETRIES = whole("purge.deleteRetries", "Retries of a deletion.", default=3, low=0)
PURGE_PARALLELISM = Setting[int | None](
    "purge.parallelism", Maybe(Int(low=1), "auto"), None, "Parallel deletions; `auto` depends on the host or cluster."
)
PURGE_ON_WRITE_ENABLED = switch("purgeOnWrite.enabled", "Purge automatically after writes.", default=False)
PURGE_ON_WRITE_TRIGGER_AFTER_MERGE = switch(
    "purgeOnWrite.triggerAfterMerge", "Purge after every merge of splits.", default=True
)
PURGE_ON_WRITE_TRIGGER_AFTER_WRITES = whole(
    "purgeOnWrite.triggerAfterWrites",
    "Number of writes after which a purge runs; 0 means no such count.",
    default=0,
    low=0,
)
PURGE_ON_WRITE_SPLIT_RETENTION_HOURS = duration(
    "purgeOnWrite.splitRetentionHours", "Age below which a purge on write keeps a split.", default=168, unit="hours"
)
PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS = duration(
    "purgeOnWrite.txLogRetentionHours", "Time that a purge on write keeps version files.", default=720, unit="hours"
)

# Merge

MERGE_TARGET_SIZE = size("merge.targetSize", "Size up to which splits are merged.", default="5G")
MERGE_MAX_SOURCE_SPLITS_PER_MERGE = whole(
    "merge.maxSourceSplitsPerMerge", "Most splits that are merged into one.", default=1000, low=2
)
MERGE_SKIP_SPLIT_THRESHOLD = ratio(
    "merge.skipSplitThreshold", "Share of the target size from which a split is not merged.", default=0.45
)
MERGE_BATCH_SIZE = Setting[int | None](
    "merge.batchSize",
    Maybe(Int(low=1), "none"),
    None,
    "Merged splits committed in one version; `none` commits all of them in one.",
)
MERGE_ON_WRITE_ENABLED = switch("mergeOnWrite.enabled", "Merge splits automatically after writes.", default=False)
MERGE_ON_WRITE_ASYNC_ENABLED = switch(
    "mergeOnWrite.async.enabled", "Merge in the background while the writer continues.", default=True
)
MERGE_ON_WRITE_TARGET_SIZE = size(
    "mergeOnWrite.targetSize", "Size up to which a merge on write merges splits.", default="4G"
)
MERGE_ON_WRITE_MIN_BATCHES_TO_TRIGGER = whole(
    "mergeOnWrite.minBatchesToTrigger", "Number of batches of mergeable splits that starts a merge.", default=1
)
MERGE_ON_WRITE_MAX_CONCURRENT_BATCHES = whole(
    "mergeOnWrite.maxConcurrentBatches", "Batches merged in parallel.", default=3
)
MERGE_ON_WRITE_SHUTDOWN_TIMEOUT_MS = duration(
    "mergeOnWrite.shutdownTimeoutMs",
    "Longest wait for background merges when the process ends.",
    default=300_000,
    unit="ms",
)

# Writing

# Tantivy's writer has the same bounds of the heap.
INDEX_WRITER_HEAP_SIZE = size(
    "indexWriter.heapSize", "Memory of one index writer.", default="100M", low="15M", high="4095M"
)
INDEX_WRITER_TEMP_DIRECTORY_PATH = Setting[str | None](
    "indexWriter.tempDirectoryPath",
    Maybe(Text(), "auto"),
    None,
    "Local directory for building splits; `auto` is the system's temporary one, and shared memory for small splits.",
    host_only=True,
)
WRITE_TARGET_SPLIT_SIZE = size("write.targetSplitSize", "Size at which a writer starts a new split.", default="1G")
WRITE_OPTIMIZE_WRITE_ENABLED = switch(
    "write.optimizeWrite.enabled", "Shuffle rows before a write so that splits have an even size.", default=False
)
WRITE_OPTIMIZE_WRITE_TARGET_SPLIT_SIZE = size(
    "write.optimizeWrite.targetSplitSize", "Target size of splits for this shuffle.", default="1G"
)

# Reading with Spark

READ_MAX_PARTITION_BYTES = size(
    "read.maxPartitionBytes",
    "Most bytes of splits for one Spark task; a larger split gets its own task.",
    default="128M",
)
READ_MIN_PARTITIONS = Setting[int | None](
    "read.minPartitions",
    Maybe(Int(low=1), "auto"),
    None,
    "Target number of Spark tasks if splits are small; `auto` is twice the cores of the driver's host.",
)

SEARCH_DRIVER_MAX_ROWS = whole(
    "search.driver.maxRows",
    "Most rows of a search that Spark's driver runs itself; 0 leaves every search to tasks.",
    default=10_000,
    low=0,
)
SEARCH_DRIVER_MAX_SPLITS = whole(
    "search.driver.maxSplits", "Most splits of a search that the driver runs itself.", default=64, low=0
)
SEARCH_DRIVER_MAX_FETCH = size(
    "search.driver.maxFetch",
    "Most bytes of indexes, and of rows, that the driver fetches for such a search.",
    default="256M",
    low="0",
)
SCAN_MODE = choice(
    "scan.mode",
    "How Spark reads the rows of a plain filter: by the index where that is cheaper, always by the index where it "
    "decides a part of the filter, or always by Spark's own Parquet scan.",
    default="auto",
    others=("index", "native"),
)
SCAN_PLAN_MAX_MILLIS = whole(
    "scan.plan.maxMillis",
    "Most milliseconds for asking filters and indexes while Spark plans a plain filter; Spark scans the splits if it "
    "takes longer.",
    default=100,
    low=0,
)
SCAN_PLAN_MAX_FETCH = size(
    "scan.plan.maxFetch",
    "Most bytes of indexes that planning a plain filter fetches; by default only indexes on local disk are asked.",
    default="0",
    low="0",
)
SEARCH_COLD = choice(
    "search.cold",
    "How an index is fetched that is not in the local cache: only the parts that a search needs, or whole.",
    default="partial",
    others=("whole",),
)
SEARCH_FILTERS_MAX_FETCH = size(
    "search.filters.maxFetch",
    "Most bytes of filter sheets that a search fetches before it asks the splits themselves; 0 fetches none.",
    default="4M",
    low="0",
)
SEARCH_ANSWERS_MAX_SIZE = size(
    "search.answers.maxSize",
    "Most bytes of answers that a handle keeps for the same question to the same version; 0 keeps none.",
    default="16M",
    low="0",
)
SEARCH_COLD_GAP = size(
    "search.cold.gap",
    "Most bytes between two needed parts of an index that are fetched with them, to save a request.",
    default="64K",
    low="0",
)

# Searching

SEARCH_ROWS = choice(
    "search.rows",
    "Read found rows from a decoded copy of their split in the disk cache, made once it pays, or always by pages.",
    default="decoded",
    others=("pages",),
)
SEARCH_COMBINED = choice(
    "search.combined",
    "Search many small splits by one index of links in the disk cache, or each split by its own index.",
    default="on",
    others=("off",),
)
SCORE_SCOPE = choice(
    "score.scope",
    "Rows whose statistics decide a score: the row's split, or the whole table where one index can hold it.",
    default="split",
    others=("table",),
)

# Cache on disk

CACHE_DISK_ENABLED = switch("cache.disk.enabled", "Keep the index parts of splits on local disk.", default=True)
CACHE_DISK_PATH = Setting[str | None](
    "cache.disk.path",
    Maybe(Text(), "auto"),
    None,
    "Directory of the disk cache; `auto` is in the user's cache directory.",
    host_only=True,
)
CACHE_DISK_MAX_SIZE = size(
    "cache.disk.maxSize", "Most bytes in the disk cache.", default="10G", low="0", host_only=True
)

# Indexing

INDEXING_TYPEMAP = Family(
    "indexing.typemap",
    Choice(("string", "text", "json", "ip")),
    "string",
    "Index of a text column: one term, words, JSON, or IP addresses.",
    short="indexing",
)
INDEXING_TOKENIZER = Family("indexing.tokenizer", Text(), "default", "Tokenizer that splits a text column into words.")
INDEXING_FASTFIELDS = Setting[tuple[str, ...] | None](
    "indexing.fastfields",
    Maybe(Names(), "auto"),
    None,
    "Columns stored column-wise for aggregation; `auto`: partition columns, and numeric columns of the first 32.",
)
INDEXING_TEXT_INDEX_RECORD_OPTION = choice(
    "indexing.text.indexRecordOption",
    "Facts in the index about a word in a text: presence, frequency, or positions (phrases need positions).",
    default="position",
    others=("freq", "basic"),
)
INDEXING_TEXT_MAX_TOKEN_LENGTH = whole(
    "indexing.text.maxTokenLength",
    "Most bytes of an indexed word; longer words are not indexed.",
    default=255,
    high=65_530,
)
INDEXING_JSON_MODE = choice(
    "indexing.json.mode",
    "Index JSON columns for search and aggregation (`full`) or for search only (`minimal`).",
    default="full",
    others=("minimal",),
)

ALL: tuple[Setting[object], ...] = tuple(
    value for value in (*globals().values(), *vars(store_settings).values()) if isinstance(value, Setting)
)
FAMILIES: tuple[Family, ...] = tuple(value for value in globals().values() if isinstance(value, Family))
