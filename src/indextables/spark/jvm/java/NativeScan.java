package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's own Parquet scan over the live splits of a table. */
public final class NativeScan {
    private final LiveSplits splits;
    private final StructType schema;

    public NativeScan(LiveSplits splits, StructType schema) {
        this.splits = splits;
        this.schema = schema;
    }

    /** A copy that knows its load. */
    NativeScan openedBy(PrivateScan.Opened opened) {
        splits.opened = opened;
        return this;
    }

    /** Whether a load requests exactly these columns. */
    boolean gives(StructType wanted) {
        if (wanted.length() != schema.length()) return false;
        for (int i = 0; i < wanted.length(); i++) {
            if (!wanted.fields()[i].name().equals(schema.fields()[i].name())) return false;
            if (!wanted.fields()[i].dataType().sameType(schema.fields()[i].dataType())) return false;
        }
        return true;
    }

    HadoopFsRelation relation(SparkSession session) {
        Map options = (Map) scala.collection.immutable.Map$.MODULE$.empty();
        // The splits hold dates of the proleptic Gregorian calendar, like Spark, but lack Spark's marker.
        options = (Map) options.$plus(new Tuple2("datetimeRebaseMode", "CORRECTED"));
        options = (Map) options.$plus(new Tuple2("parquet.page.verify-checksum.enabled", "true"));
        // No checksum covers the headers of dictionaries, so they must not exclude row groups.
        options = (Map) options.$plus(new Tuple2("parquet.filter.dictionary.enabled", "false"));
        return new HadoopFsRelation(
            splits, splits.partitionSchema(), schema, scala.Option.empty(), new ParquetFileFormat(), options, session);
    }

    LogicalRelation over(Seq output, SparkSession session) {
        return new LogicalRelation(relation(session), output, scala.Option.empty(), false, scala.Option.empty());
    }

    static boolean isFiltered(Object node) {
        return node instanceof Filter && splitsOf(((Filter) node).child()) != null;
    }

    /** The same filter over a scan by the index, or over the splits that it does not exclude. */
    static LogicalPlan pruned(Object node) {
        Filter filter = (Filter) node;
        LogicalRelation scan = (LogicalRelation) filter.child();
        HadoopFsRelation relation = (HadoopFsRelation) scan.relation();
        LiveSplits splits = splitsOf(scan);
        List conjuncts = SearchRules.conjuncts(filter.condition(), new ArrayList());
        LiveSplits left = splits.pruned(conjuncts);
        if (left == splits) return filter;
        FilterChoice choice = left.chosen(conjuncts);
        if (choice != null && choice.isByIndex) {
            LogicalPlan found = SearchedScan.filtering(scan, choice.where);
            if (found != null) return new Filter(filter.condition(), found);
        }
        if (choice != null) left = left.narrowed(choice);
        HadoopFsRelation narrowed = new HadoopFsRelation(
            left, relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat(),
            relation.options(), relation.sparkSession());
        return new Filter(
            filter.condition(),
            new LogicalRelation(narrowed, scan.output(), scan.catalogTable(), scan.isStreaming(), scan.stream()));
    }

    static LiveSplits splitsOf(Object node) {
        if (!(node instanceof LogicalRelation)) return null;
        Object relation = ((LogicalRelation) node).relation();
        if (!(relation instanceof HadoopFsRelation)) return null;
        Object index = ((HadoopFsRelation) relation).location();
        return index instanceof LiveSplits ? (LiveSplits) index : null;
    }
}
