package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import scala.jdk.javaapi.CollectionConverters;

/** One of our scans below columns and a filter, with options that find exactly the rows of both. */
final class AskedScan {
    final LogicalPlan scan;
    final PrivateScan.Opened opened;
    final Map options;

    private AskedScan(LogicalPlan scan, PrivateScan.Opened opened, Map options) {
        this.scan = scan;
        this.opened = opened;
        this.options = options;
    }

    /** The scan below a plan; null if there is another node between, or a filter without an exact equivalent. */
    static AskedScan below(LogicalPlan plan) {
        LogicalPlan below = withoutColumns(plan);
        String where = null;
        if (below instanceof Filter) {
            where = exactly(((Filter) below).condition());
            if (where == null) return null;
            below = withoutColumns(((Filter) below).child());
        }
        PrivateScan.Opened opened = below == null ? null : SearchedScan.openedBy(below);
        if (opened == null || opened.options.containsKey("limit")) return null;
        PrivateScan table = SearchedScan.privateOf(below);
        PrivateScan.Asked asked = table == null ? new PrivateScan.Asked() : table.asked;
        boolean isFiltered = asked.where != null || opened.options.containsKey("where");
        if (asked.limit >= 0 || where != null && isFiltered) return null;
        if (where != null) asked = asked.filtering(where);
        return new AskedScan(below, opened, asked.options());
    }

    /** The plan below projections of plain columns; null if one computes anything. */
    private static LogicalPlan withoutColumns(LogicalPlan plan) {
        LogicalPlan below = plan;
        while (below instanceof Project) {
            List columns = CollectionConverters.asJava(((Project) below).projectList());
            for (int i = 0; i < columns.size(); i++) if (!(columns.get(i) instanceof Attribute)) return null;
            below = ((Project) below).child();
        }
        return below;
    }

    /** The text of a predicate that is true exactly where a condition is true; null if there is none. */
    private static String exactly(Expression condition) {
        List conjuncts = SearchRules.conjuncts(condition, new ArrayList());
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < conjuncts.size(); i++) {
            scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter((Expression) conjuncts.get(i), true);
            String part = filter.isEmpty() ? null : FilterText.exactly((org.apache.spark.sql.sources.Filter) filter.get());
            if (part == null) return null;
            text.append(i == 0 ? "" : " AND ").append(part);
        }
        return text.toString();
    }

    /** The name of a column in the table; null if the column is none of the scan's. */
    String name(Attribute attribute) {
        List output = CollectionConverters.asJava(scan.output());
        for (int i = 0; i < output.size(); i++) {
            Attribute known = (Attribute) output.get(i);
            if (known.exprId().equals(attribute.exprId())) return known.name();
        }
        return null;
    }

    String note() {
        Object where = options.get("where");
        return where == null ? "" : ", where: " + where;
    }
}
