package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Our scans in a plan, and variants of them with searches, scores and snippets. */
final class SearchedScan {
    private static final String SCORE = "_score";
    private static final String SNIPPET = "_snippet";

    /** Whether a node is a scan with a search. */
    static boolean isSearched(Object node) {
        PrivateScan table = privateOf(node);
        return table != null && (!table.asked.searches.isEmpty() || table.opened.options.containsKey("search"));
    }

    /**
     * A scan with additional searches; null if its index cannot decide them. `load` is the opened load of a scan that no
     * rule has replaced yet.
     */
    static LogicalPlan searching(LogicalPlan scan, PrivateScan.Opened load, List searches) {
        PrivateScan table = privateOf(scan);
        if (table != null && (table.asked.score || table.asked.snippet != null)) return null;
        PrivateScan.Opened opened = table != null ? table.opened : load != null ? load : openedNatively(scan);
        if (opened == null) return null;
        List accepted = Texts.list(Texts.checked(opened.push.apply(Texts.json(searches))));
        if (accepted.isEmpty()) return null;
        PrivateScan.Asked asked = table == null ? new PrivateScan.Asked() : table.asked;
        return over(scan, scan.output(), PrivateScan.of(scan.schema(), opened, asked.searching(accepted)));
    }

    /** A scan of the rows that match a predicate, instead of a native scan; null if there is none. */
    static LogicalPlan filtering(LogicalPlan scan, String where) {
        PrivateScan.Opened opened = openedNatively(scan);
        if (opened == null) return null;
        PrivateScan.Asked asked = new PrivateScan.Asked().filtering(where);
        return over(scan, scan.output(), PrivateScan.of(scan.schema(), opened, asked));
    }

    /** A searched scan with scores; null if a limit of its load would then select other rows. */
    static LogicalPlan scoring(LogicalPlan scan) {
        PrivateScan table = privateOf(scan);
        if (column(scan, true) != null) return scan;
        if (table.opened.options.containsKey("limit")) return null;
        return widened(scan, SCORE, DataTypes.FloatType, table, table.asked.scoring());
    }

    /** A searched scan with snippets of a column; null if it has snippets of another column. */
    static LogicalPlan showing(LogicalPlan scan, String column) {
        PrivateScan table = privateOf(scan);
        Object shown = table.asked.snippet != null ? table.asked.snippet : table.opened.options.get("snippet");
        if (column(scan, false) != null) return column.equals(shown) ? scan : null;
        return widened(scan, SNIPPET, DataTypes.StringType, table, table.asked.showing(column));
    }

    /** The score column of a scan, or else its snippet column; null if it has none. */
    static Attribute column(LogicalPlan scan, boolean isScore) {
        List output = CollectionConverters.asJava(scan.output());
        for (int i = 0; i < output.size(); i++) {
            if (((Attribute) output.get(i)).name().equals(isScore ? SCORE : SNIPPET)) return (Attribute) output.get(i);
        }
        return null;
    }

    private static LogicalPlan widened(
        LogicalPlan scan, String name, DataType type, PrivateScan table, PrivateScan.Asked asked) {
        List output = new ArrayList(CollectionConverters.asJava(scan.output()));
        Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        output.add(new AttributeReference(
            name, type, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none));
        return over(
            scan, CollectionConverters.asScala(output).toSeq(),
            PrivateScan.of(table.schema().add(name, type, true), table.opened, asked));
    }

    private static LogicalPlan over(LogicalPlan scan, Seq output, PrivateScan table) {
        if (scan instanceof DataSourceV2Relation) {
            DataSourceV2Relation load = (DataSourceV2Relation) scan;
            return Relations.over(load, table, output);
        }
        return Relations.of(table, output);
    }

    /** A scan of at most so many rows; null if there is none. With scores, these are the best rows of a search. */
    static LogicalPlan limited(LogicalPlan scan, int limit, boolean isScored, int fewRows) {
        PrivateScan table = privateOf(scan);
        PrivateScan.Opened opened = openedBy(scan);
        if (opened == null || opened.options.containsKey("limit")) return null;
        if (table == null && (limit > fewRows || isScored)) return null;
        PrivateScan.Asked asked = table == null ? new PrivateScan.Asked() : table.asked;
        // A scan with scores returns the best rows, not the first ones.
        if (asked.limit >= 0 || asked.score != isScored || opened.options.containsKey("score")) return null;
        return over(scan, scan.output(), PrivateScan.of(scan.schema(), opened, asked.limiting(limit)));
    }

    /** The opened load of one of our scans; null for other nodes. */
    static PrivateScan.Opened openedBy(LogicalPlan scan) {
        PrivateScan table = privateOf(scan);
        return table == null ? openedNatively(scan) : table.opened;
    }

    static PrivateScan privateOf(Object node) {
        if (!(node instanceof DataSourceV2Relation)) return null;
        Object table = ((DataSourceV2Relation) node).table();
        return table instanceof PrivateScan ? (PrivateScan) table : null;
    }

    /** The opened load of a native scan; null for other nodes, and for scans that read metadata of Parquet files. */
    private static PrivateScan.Opened openedNatively(Object node) {
        LiveSplits splits = NativeScan.splitsOf(node);
        if (splits == null || splits.opened == null) return null;
        LogicalRelation scan = (LogicalRelation) node;
        return scan.output().size() == scan.relation().schema().length() ? splits.opened : null;
    }
}
