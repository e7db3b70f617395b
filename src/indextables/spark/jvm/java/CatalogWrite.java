package indextables.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A write to a catalog table: the replaced rows become an option, which the commit enforces. */
final class CatalogWrite implements SupportsOverwrite, SupportsDynamicOverwrite {
    private final CatalogLoad table;
    private final LogicalWriteInfo info;
    private final Map extra = new HashMap();
    private boolean isOverwrite;

    CatalogWrite(CatalogLoad table, LogicalWriteInfo info, boolean isOverwrite) {
        this.table = table;
        this.info = info;
        this.isOverwrite = isOverwrite;
    }

    public WriteBuilder truncate() {
        isOverwrite = true;
        return this;
    }

    public WriteBuilder overwriteDynamicPartitions() {
        isOverwrite = true;
        extra.put("partitionOverwriteMode", "dynamic");
        return this;
    }

    public WriteBuilder overwrite(Filter[] filters) {
        isOverwrite = true;
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < filters.length; i++) all.append(i == 0 ? "" : " AND ").append(text(filters[i]));
        extra.put("replaceWhere", all.toString());
        return this;
    }

    private String text(Filter filter) {
        if (filter instanceof EqualNullSafe && ((EqualNullSafe) filter).value() == null) {
            return text(new IsNull(((EqualNullSafe) filter).attribute()));
        }
        String found = FilterText.exactly(filter);
        if (found != null) return found;
        throw CatalogTables.refused("QueryError", "cannot overwrite the rows of `" + table.name() + "` where `" + filter
            + "` because this does not select whole partitions\nhint: compare partition columns with literals");
    }

    public Write build() {
        Map given = new HashMap(info.options().asCaseSensitiveMap());
        given.putAll(extra);
        Map request = table.request("write", given);
        request.put("create", table.told.get("create"));
        Map told = Texts.map(Texts.checked(table.ask.apply(Texts.json(request))));
        LogicalWriteInfo asked = new LogicalWriteInfoImpl(
            info.queryId(), info.schema(), new CaseInsensitiveStringMap((Map) told.get("options")), info.rowIdSchema(),
            info.metadataSchema());
        String format = (String) table.told.get("format");
        Write write = new PythonWrite(CatalogLoad.newSource(format), format, asked, isOverwrite);
        List columns = (List) table.told.get("partitions");
        long share = ((Number) told.get("share")).longValue();
        return new Planned(table, write, share <= 0 ? new ArrayList() : columns, share);
    }

    /** A write that reports its commit: Spark itself finds cached data only by the name of the table. */
    private static final class Telling implements BatchWrite {
        private final CatalogLoad table;
        private final BatchWrite write;

        Telling(CatalogLoad table, BatchWrite write) {
            this.table = table;
            this.write = write;
        }

        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
            return write.createBatchWriterFactory(info);
        }

        public boolean useCommitCoordinator() {
            return write.useCommitCoordinator();
        }

        public void commit(WriterCommitMessage[] messages) {
            write.commit(messages);
            try {
                Texts.checked(table.ask.apply(Texts.json(table.request("changed", new HashMap()))));
            } catch (RuntimeException error) {  // the rows are committed, so no error may fail the write
                Caches.clear(org.apache.spark.sql.classic.SparkSession.active());
            }
        }

        public void abort(WriterCommitMessage[] messages) {
            write.abort(messages);
        }
    }

    /** A write of rows in shares of about `share` bytes; rows with equal values in `columns` stay together. */
    private static final class Planned implements RequiresDistributionAndOrdering {
        private final CatalogLoad table;
        private final Write write;
        private final List columns;
        private final long share;

        Planned(CatalogLoad table, Write write, List columns, long share) {
            this.table = table;
            this.write = write;
            this.columns = columns;
            this.share = share;
        }

        public Distribution requiredDistribution() {
            if (columns.isEmpty()) return Distributions.unspecified();
            Expression[] keys = new Expression[columns.size()];
            for (int i = 0; i < keys.length; i++) {
                keys[i] = Expressions.column(CatalogLoad.quoted((String) columns.get(i)));
            }
            return Distributions.clustered(keys);
        }

        public boolean distributionStrictlyRequired() {
            return false;
        }

        public long advisoryPartitionSizeInBytes() {
            return columns.isEmpty() ? 0 : share;
        }

        public SortOrder[] requiredOrdering() {
            return new SortOrder[0];
        }

        public String description() {
            return write.description();
        }

        public BatchWrite toBatch() {
            return new Telling(table, write.toBatch());
        }

        public StreamingWrite toStreaming() {
            return write.toStreaming();
        }

        public org.apache.spark.sql.connector.metric.CustomMetric[] supportedCustomMetrics() {
            return write.supportedCustomMetrics();
        }
    }
}
