package indextables.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Limits above one of our scans: the scan stops early. The limit stays in the plan. */
final class LimitRules {
    /** The most rows that the driver reads for a limit of a plain scan. */
    private static final int FEW_ROWS = 1000;

    /** The limit over a scan that stops early; null if there is none. */
    static LogicalPlan stopped(LocalLimit limit) {
        if (!(limit.limitExpr() instanceof Literal)) return null;
        Object value = ((Literal) limit.limitExpr()).value();
        if (!(value instanceof Integer) || ((Integer) value).intValue() < 1) return null;
        LogicalPlan below = limit.child();
        boolean isSorted = below instanceof Sort;
        LogicalPlan scan = belowColumns(isSorted ? ((Sort) below).child() : below);
        if (isSorted && !isBestFirst((Sort) below, scan)) return null;
        final LogicalPlan old = scan;
        final LogicalPlan stopped = SearchedScan.limited(scan, ((Integer) value).intValue(), isSorted, FEW_ROWS);
        if (stopped == null) return null;
        return (LogicalPlan) limit.transformDown(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node == old;
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                return node == old ? stopped : otherwise.apply(node);
            }
        });
    }

    private static LogicalPlan belowColumns(LogicalPlan plan) {
        LogicalPlan below = plan;
        while (below instanceof Project) below = ((Project) below).child();
        return below;
    }

    /** Whether rows are sorted by nothing but the score of a search, the best first. */
    private static boolean isBestFirst(Sort sort, LogicalPlan scan) {
        List order = CollectionConverters.asJava(sort.order());
        Attribute score = SearchedScan.isSearched(scan) ? SearchedScan.column(scan, true) : null;
        if (order.size() != 1 || score == null) return false;
        SortOrder by = (SortOrder) order.get(0);
        if (by.direction() != Descending$.MODULE$) return false;
        Object sorted = by.child();
        for (LogicalPlan below = sort.child(); below instanceof Project; below = ((Project) below).child()) {
            sorted = origin(sorted, (Project) below);
        }
        return sorted instanceof Attribute && ((Attribute) sorted).exprId().equals(score.exprId());
    }

    /** The expression that a projection shows under the name of an attribute. */
    private static Object origin(Object shown, Project project) {
        if (!(shown instanceof Attribute)) return null;
        List columns = CollectionConverters.asJava(project.projectList());
        for (int i = 0; i < columns.size(); i++) {
            NamedExpression column = (NamedExpression) columns.get(i);
            if (!column.exprId().equals(((Attribute) shown).exprId())) continue;
            return column instanceof Alias ? ((Alias) column).child() : column;
        }
        return null;
    }
}
