"""The table of settings: complete, without clashes, with the defaults that are promised, and typed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import indextables.config
from indextables.config import Family, Setting, lookup, settings, store_settings

DEFAULTS: dict[str, object] = {
    "checkpoint.enabled": True,
    "checkpoint.interval": 10,
    "checkpoint.parallelism": 4,
    "checkpoint.read.timeoutSeconds": 30,
    "checkpoint.retention": 30,
    "checkpoint.compression": "snappy",
    "checkpoint.maxFileSize": 134217728,
    "logRetention.duration": 2592000000,
    "checkpointRetention.duration": 7200000,
    "cleanup.enabled": True,
    "cleanup.failurePolicy": "continue",
    "cleanup.dryRun": False,
    "transaction.useOptimized": True,
    "transaction.cache.enabled": True,
    "transaction.cache.expirationSeconds": 300,
    "transaction.compression.enabled": True,
    "transaction.retry.maxAttempts": 10,
    "transaction.retry.timeoutSeconds": 600,
    "transaction.retry.baseDelayMs": 100,
    "transaction.retry.maxDelayMs": 5000,
    "state.retry.maxAttempts": 10,
    "state.retry.baseDelayMs": 100,
    "state.retry.maxDelayMs": 5000,
    "state.filters": "auto",
    "state.filters.minSplits": 1000,
    "state.filters.maxSize": 4 << 30,
    "state.format": "avro",
    "state.compression": "zstd",
    "state.compressionLevel": 3,
    "state.entriesPerManifest": 50000,
    "state.read.parallelism": 8,
    "state.read.maxFiles": 200_000,
    "state.schema.renormalizeThreshold": 5,
    "state.compaction.tombstoneThreshold": 0.10,
    "state.compaction.maxManifests": 20,
    "state.compaction.largeRemoveThreshold": None,
    "state.compaction.afterMerge": True,
    "state.retention.versions": 2,
    "state.retention.hours": 168,
    "state.gc.minManifestAgeHours": 1,
    "stats.truncation.enabled": True,
    "stats.truncation.maxLength": 32,
    "dataSkippingNumIndexedCols": 32,
    "dataSkippingStatsColumns": None,
    "purge.defaultRetentionHours": 168,
    "purge.minRetentionHours": 24,
    "purge.retentionCheckEnabled": True,
    "purge.txLogRetentionHours": 720,
    "purge.maxFilesToDelete": 1000000,
    "purge.deleteRetries": 3,
    "purge.parallelism": None,
    "purgeOnWrite.enabled": False,
    "purgeOnWrite.triggerAfterMerge": True,
    "purgeOnWrite.triggerAfterWrites": 0,
    "purgeOnWrite.splitRetentionHours": 168,
    "purgeOnWrite.txLogRetentionHours": 720,
    "merge.batchSize": None,
    "merge.maxSourceSplitsPerMerge": 1000,
    "merge.skipSplitThreshold": 0.45,
    "merge.targetSize": 5 << 30,
    "mergeOnWrite.enabled": False,
    "mergeOnWrite.async.enabled": True,
    "mergeOnWrite.targetSize": 4 << 30,
    "mergeOnWrite.minBatchesToTrigger": 1,
    "mergeOnWrite.maxConcurrentBatches": 3,
    "mergeOnWrite.shutdownTimeoutMs": 300000,
    "indexWriter.heapSize": 100 << 20,
    "indexWriter.tempDirectoryPath": None,
    "write.targetSplitSize": 1 << 30,
    "write.optimizeWrite.enabled": False,
    "write.optimizeWrite.targetSplitSize": 1 << 30,
    "read.maxPartitionBytes": 128 << 20,
    "read.minPartitions": None,
    "search.driver.maxRows": 10_000,
    "search.driver.maxSplits": 64,
    "search.driver.maxFetch": 256 << 20,
    "scan.mode": "auto",
    "scan.plan.maxMillis": 100,
    "scan.plan.maxFetch": 0,
    "search.filters.maxFetch": 4 << 20,
    "search.combined": "on",
    "score.scope": "split",
    "search.answers.maxSize": 16 << 20,
    "search.cold": "partial",
    "search.cold.gap": 64 << 10,
    "search.rows": "decoded",
    "cache.disk.enabled": True,
    "cache.disk.path": None,
    "cache.disk.maxSize": 10 << 30,
    "indexing.fastfields": None,
    "indexing.text.indexRecordOption": "position",
    "indexing.text.maxTokenLength": 255,
    "indexing.json.mode": "full",
    "aws.accessKey": None,
    "aws.secretKey": None,
    "aws.sessionToken": None,
    "aws.region": None,
    "aws.endpoint": None,
    "aws.pathStyleAccess": None,
    "aws.profile": None,
    "aws.skipSignature": False,
    "aws.encryption": None,
    "aws.encryptionKeyId": None,
    "aws.requesterPays": False,
    "azure.accountName": None,
    "azure.accountKey": None,
    "azure.sasToken": None,
    "azure.bearerToken": None,
    "azure.tenantId": None,
    "azure.clientId": None,
    "azure.clientSecret": None,
    "azure.authorityHost": None,
    "azure.msiEndpoint": None,
    "azure.federatedTokenFile": None,
    "azure.credentialType": "auto",
    "azure.skipSignature": False,
    "azure.endpoint": None,
    "gcs.serviceAccountFile": None,
    "gcs.serviceAccountKey": None,
    "gcs.bearerToken": None,
    "gcs.skipSignature": False,
    "gcs.endpoint": None,
    "hdfs.user": None,
    "hdfs.configuration": None,
    "store.allowHttp": False,
    "store.caFile": None,
    "store.timeoutSeconds": 30,
    "store.connectTimeoutSeconds": 5,
    "store.retry.baseDelayMs": 100,
    "store.retry.maxDelayMs": 15000,
    "store.retry.maxAttempts": 10,
    "store.retry.timeoutSeconds": 180,
    "store.parallelism": 32,
}

every_setting = pytest.mark.parametrize("setting", settings.ALL, ids=lambda setting: setting.key)


def test_the_keys_and_defaults_are_those_promised():
    assert {setting.key: setting.default for setting in settings.ALL} == DEFAULTS
    assert {family.key: family.default for family in settings.FAMILIES} == {
        "indexing.typemap": "string",
        "indexing.tokenizer": "default",
    }


def test_no_spelling_means_two_settings():
    spellings = [name.lower() for setting in settings.ALL for name in (setting.key, *setting.aliases)]
    assert len(spellings) == len(set(spellings))


def test_constants_are_called_like_their_keys():
    for name, setting in (*vars(settings).items(), *vars(store_settings).items()):
        if isinstance(setting, Setting | Family):
            assert name.replace("_", "").lower() == setting.key.replace(".", "").lower()


@every_setting
def test_a_setting_is_found_under_each_spelling(setting: Setting[object]):
    for name in (setting.key, *setting.aliases):
        assert lookup.find(name) is setting
        assert lookup.find(name.upper()) is setting


@every_setting
def test_a_default_is_a_good_value(setting: Setting[object]):
    assert setting.meaning.endswith(".")
    if setting.default is None:
        return
    text = setting.kind.show(setting.default)
    assert setting.parse(text) == setting.default
    assert type(setting.parse(text)) is type(setting.default)


@every_setting
def test_everything_about_storage_belongs_to_the_host(setting: Setting[object]):
    storage = setting.key.split(".")[0] in ("aws", "azure", "gcs", "hdfs", "store")
    local_disk = setting.key in ("cache.disk.path", "cache.disk.maxSize", "indexWriter.tempDirectoryPath")
    assert setting.host_only == (storage or local_disk)


def test_the_secrets_are_secret():
    assert {setting.key for setting in settings.ALL if setting.secret} == {
        *("aws.accessKey", "aws.secretKey", "aws.sessionToken"),
        *("azure.accountKey", "azure.sasToken", "azure.bearerToken", "azure.clientSecret"),
        *("gcs.serviceAccountKey", "gcs.bearerToken"),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("indexing.typemap.Title", (settings.INDEXING_TYPEMAP, "Title")),
        ("INDEXING.TypeMap.a.B", (settings.INDEXING_TYPEMAP, "a.B")),
        ("indexing.Title", (settings.INDEXING_TYPEMAP, "Title")),
        ("indexing.text", (settings.INDEXING_TYPEMAP, "text")),
        ("indexing.typemap.typemap", (settings.INDEXING_TYPEMAP, "typemap")),
        ("indexing.tokenizer.Body", (settings.INDEXING_TOKENIZER, "Body")),
        ("indexing.typemap.fastfields", (settings.INDEXING_TYPEMAP, "fastfields")),
        ("indexing.FastFields", settings.INDEXING_FASTFIELDS),
        ("indexing.text.maxtokenlength", settings.INDEXING_TEXT_MAX_TOKEN_LENGTH),
        ("indexing.text.maxTokenLenght", None),
        ("indexing.a.b", None),
        ("indexing.typemap", None),
        ("indexing.Tokenizer", None),
        ("indexing.typemap.", None),
        ("indexing.", None),
        ("indexing", None),
        ("", None),
    ],
)
def test_families_take_fields_and_leave_known_keys(name: str, expected: object):
    assert lookup.find(name) == expected


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("checkpoint.intervall", "checkpoint.interval"),
        ("STATE.COMPRESION", "state.compression"),
        ("indexing.text.maxTokenLenght", "indexing.text.maxTokenLength"),
        ("indexing.typmap.a", "indexing.typemap.<field>"),
        ("aws_secret_acess_key", "aws.secretKey"),
        ("q", None),
    ],
)
def test_the_nearest_key_is_named(name: str, near: str | None):
    assert lookup.nearest(name) == near


@given(st.text(min_size=1), st.sampled_from(["indexing.typemap.", "Indexing.TypeMap.", "INDEXING.TOKENIZER."]))
def test_any_field_keeps_its_name(field: str, head: str):
    found = lookup.find(head + field)
    assert isinstance(found, tuple)
    assert found[1] == field


def test_the_package_imports_only_the_standard_library_and_the_errors():
    modules = sorted(Path(indextables.config.__file__).parent.glob("*.py"))
    imported = {name for module in modules for name in _imports(ast.parse(module.read_text()))}
    assert "indextables.errors" in imported
    for name in imported - {"indextables.errors"}:
        assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("indextables.config")


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
