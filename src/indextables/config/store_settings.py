"""Settings of stores: requests and credentials.

None of them is ever read from a table's properties. The environment and each cloud's own credential chain replace
settings without a value.
"""

from __future__ import annotations

from indextables.config.setting import Setting, duration, place, secret, switch, whole
from indextables.config.values import Bool, Choice, Maybe, Text

# Requests

STORE_TIMEOUT_SECONDS = duration(
    "store.timeoutSeconds", "Longest wait for one request.", default=30, unit="seconds", low=1, host_only=True
)
STORE_CONNECT_TIMEOUT_SECONDS = duration(
    "store.connectTimeoutSeconds", "Longest wait for a connection.", default=5, unit="seconds", low=1, host_only=True
)
STORE_RETRY_MAX_ATTEMPTS = whole(
    "store.retry.maxAttempts", "Retries of a request inside the client.", default=10, low=0, host_only=True
)
STORE_RETRY_TIMEOUT_SECONDS = duration(
    "store.retry.timeoutSeconds",
    "Time after which a request is not retried.",
    default=180,
    unit="seconds",
    host_only=True,
)
STORE_RETRY_BASE_DELAY_MS = duration(
    "store.retry.baseDelayMs",
    "Pause before the first retry; it doubles each time, less a random part.",
    default=100,
    unit="ms",
    low=1,
    host_only=True,
)
STORE_RETRY_MAX_DELAY_MS = duration(
    "store.retry.maxDelayMs", "Longest pause between two retries.", default=15_000, unit="ms", low=1, host_only=True
)
STORE_PARALLELISM = whole(
    "store.parallelism",
    "Most parallel requests of one handle, of which an upload takes up to 16, and most idle connections.",
    default=32,
    host_only=True,
)
STORE_ALLOW_HTTP = switch(
    "store.allowHttp", "Allow endpoints without TLS.", default=False, aliases=("allow_http",), host_only=True
)
STORE_CA_FILE = Setting[str | None](
    "store.caFile",
    Maybe(Text(), "none"),
    None,
    "PEM file of additional trusted certificates.",
    host_only=True,
)

# Amazon S3

AWS_ACCESS_KEY = secret("aws.accessKey", "Access key id.", "aws_access_key_id", "access_key_id")
AWS_SECRET_KEY = secret("aws.secretKey", "Secret access key.", "aws_secret_access_key", "secret_access_key")
AWS_SESSION_TOKEN = secret("aws.sessionToken", "Token of temporary credentials.", "aws_session_token", "session_token")
AWS_REGION = place("aws.region", "Region of the bucket.", "aws_region", "region")
AWS_ENDPOINT = place(
    "aws.endpoint",
    "URL of a server with the S3 protocol.",
    "aws_endpoint",
    "aws_endpoint_url",
    "endpoint",
    "s3.endpoint",
)
AWS_PATH_STYLE_ACCESS = Setting[bool | None](
    "aws.pathStyleAccess",
    Bool(),
    None,
    "Put the bucket into the path of a URL, not into its host name.",
    ("s3.pathStyleAccess",),
    host_only=True,
)
AWS_PROFILE = place("aws.profile", "Profile of the shared AWS configuration.", "aws_profile")
AWS_SKIP_SIGNATURE = switch(
    "aws.skipSignature",
    "Send requests unsigned, for public buckets.",
    default=False,
    aliases=("aws_skip_signature",),
    host_only=True,
)
AWS_ENCRYPTION = Setting[str | None](
    "aws.encryption",
    Maybe(Choice(("aes256", "aws:kms", "aws:kms:dsse")), "bucket"),
    None,
    "Server-side encryption of written objects; with `bucket`, the settings of the bucket apply.",
    host_only=True,
)
AWS_ENCRYPTION_KEY_ID = place(
    "aws.encryptionKeyId", "KMS key for server-side encryption; the default is the key of the account."
)
AWS_REQUESTER_PAYS = switch(
    "aws.requesterPays", "Pay for requests to a requester-pays bucket.", default=False, host_only=True
)

# Azure Blob Storage

AZURE_ACCOUNT_NAME = place("azure.accountName", "Storage account.", "azure_storage_account_name", "account_name")
AZURE_ACCOUNT_KEY = secret("azure.accountKey", "Key of the account.", "azure_storage_account_key", "account_key")
AZURE_SAS_TOKEN = secret("azure.sasToken", "Shared access signature.", "azure_storage_sas_token", "sas_token")
AZURE_BEARER_TOKEN = secret("azure.bearerToken", "OAuth token.")
AZURE_TENANT_ID = place("azure.tenantId", "Tenant of a service principal.")
AZURE_CLIENT_ID = place("azure.clientId", "Client id of a service principal, or of a managed identity.")
AZURE_CLIENT_SECRET = secret("azure.clientSecret", "Secret of a service principal.")
AZURE_AUTHORITY_HOST = place("azure.authorityHost", "URL of the server that issues OAuth tokens.")
AZURE_MSI_ENDPOINT = place("azure.msiEndpoint", "URL that issues the tokens of a managed identity.")
AZURE_FEDERATED_TOKEN_FILE = place("azure.federatedTokenFile", "Path of the token of a workload identity.")
AZURE_CREDENTIAL_TYPE = Setting[str](
    "azure.credentialType",
    Choice(
        (
            "auto",
            "access_key",
            "sas_token",
            "bearer_token",
            "client_secret",
            "workload_identity",
            "managed_identity",
            "azure_cli",
        )
    ),
    "auto",
    "Kind of credentials to use; `auto` takes the first kind that is set.",
    host_only=True,
)
AZURE_SKIP_SIGNATURE = switch(
    "azure.skipSignature", "Send requests unsigned, for public containers.", default=False, host_only=True
)
AZURE_ENDPOINT = place("azure.endpoint", "URL of a server with the Azure Blob Storage protocol.")

# Google Cloud Storage

GCS_SERVICE_ACCOUNT_FILE = place(
    "gcs.serviceAccountFile", "Path of a service account's JSON file.", "google_service_account"
)
GCS_SERVICE_ACCOUNT_KEY = secret(
    "gcs.serviceAccountKey", "Content of a service account's JSON file.", "google_service_account_key"
)
GCS_BEARER_TOKEN = secret("gcs.bearerToken", "OAuth token.")
GCS_SKIP_SIGNATURE = switch(
    "gcs.skipSignature", "Send requests unsigned, for public buckets.", default=False, host_only=True
)
GCS_ENDPOINT = place("gcs.endpoint", "URL of a server with the Google Cloud Storage protocol.")

# HDFS

HDFS_USER = place("hdfs.user", "User of HDFS without Kerberos, one per process; the default is `HADOOP_USER_NAME`.")
HDFS_CONFIGURATION = place(
    "hdfs.configuration",
    "JSON object of Hadoop keys, as in `core-site.xml` and `hdfs-site.xml`; they override `HADOOP_CONF_DIR`.",
)
