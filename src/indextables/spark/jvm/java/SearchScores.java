package indextables.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/** `score()` and `snippet()` in a plan become columns of the one searched scan below them. */
final class SearchScores {
    /** A plan with a column of a scan in its output, and the column. */
    private static final class Carried {
        final LogicalPlan plan;
        final Attribute column;

        Carried(LogicalPlan plan, Attribute column) {
            this.plan = plan;
            this.column = column;
        }
    }

    static LogicalPlan placed(LogicalPlan plan) {
        return (LogicalPlan) plan.transformUp(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return first((LogicalPlan) node) != null;
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                LogicalPlan found = (LogicalPlan) node;
                for (SearchCall call = first(found); call != null; call = first(found)) {
                    LogicalPlan placed = placed(found, call);
                    if (placed == null) break;
                    found = placed;
                }
                return found == node ? otherwise.apply(node) : found;
            }
        });
    }

    static void check(LogicalPlan plan) {
        List nodes = new ArrayList();
        nodes.add(plan);
        for (int i = 0; i < nodes.size(); i++) {
            LogicalPlan node = (LogicalPlan) nodes.get(i);
            SearchCall call = first(node);
            if (call != null) {
                throw new IllegalArgumentException(
                    "indextables.errors.QueryError: cannot use " + call.udf.name() + "() because there is no search below it that "
                        + "an index decides\nhint: add a search that every row must match to the WHERE of the same SELECT");
            }
            nodes.addAll(CollectionConverters.asJava(node.children()));
        }
    }

    /** The first call of score or snippet in a node; null if there is none. */
    private static SearchCall first(LogicalPlan node) {
        List calls = SearchCall.in(node);
        for (int i = 0; i < calls.size(); i++) {
            if (!((SearchCall) calls.get(i)).isSearch()) return (SearchCall) calls.get(i);
        }
        return null;
    }

    private static LogicalPlan placed(LogicalPlan node, final SearchCall call) {
        List children = new ArrayList(CollectionConverters.asJava(node.children()));
        Attribute column = null;
        for (int i = 0; i < children.size(); i++) {
            Carried carried = carried((LogicalPlan) children.get(i), call);
            if (carried == null) continue;
            if (column != null) throw ambiguous(call);
            column = carried.column;
            children.set(i, carried.plan);
        }
        if (column == null) return null;
        final Attribute found = column;
        LogicalPlan above = (LogicalPlan) ((LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toSeq()))
            .mapExpressions(new AbstractFunction1() {
                public Object apply(Object expression) {
                    return SearchRules.replaced((Expression) expression, call.udf, found);
                }
            });
        if (above.output().size() == node.output().size()) return above;
        return new Project((scala.collection.immutable.Seq) node.output(), above);
    }

    /** A plan with a column of the searched scan below in its output; null if there is no such scan. */
    private static Carried carried(LogicalPlan plan, SearchCall call) {
        if (SearchedScan.isSearched(plan)) {
            LogicalPlan scan = call.isScore() ? SearchedScan.scoring(plan) : SearchedScan.showing(plan, call.column());
            if (scan == null) {
                throw new IllegalArgumentException("indextables.errors.QueryError: " + (call.isScore()
                    ? "cannot compute scores of a load with a limit because the limit would select other rows\nhint: load with `score`"
                    : "cannot compute snippets of two columns of one search"));
            }
            return new Carried(scan, SearchedScan.column(scan, call.isScore()));
        }
        if (plan instanceof Join) return carried((Join) plan, call);
        if (!(plan instanceof UnaryNode) || plan instanceof Aggregate) return null;
        LogicalPlan child = (LogicalPlan) ((UnaryNode) plan).child();
        boolean isSame = plan.output().equals(child.output());
        if (!isSame && !(plan instanceof Project) && !(plan instanceof Window)) return null;
        Carried below = carried(child, call);
        if (below == null) return null;
        if (!(plan instanceof Project)) return new Carried(over(plan, below.plan), below.column);
        List columns = new ArrayList(CollectionConverters.asJava(((Project) plan).projectList()));
        if (!plan.outputSet().contains(below.column)) columns.add(below.column);
        return new Carried(new Project(CollectionConverters.asScala(columns).toSeq(), below.plan), below.column);
    }

    private static Carried carried(Join join, SearchCall call) {
        boolean isLeftOnly = join.joinType() == LeftSemi$.MODULE$ || join.joinType() == LeftAnti$.MODULE$
            || join.joinType() instanceof ExistenceJoin;
        Carried left = carried(join.left(), call);
        Carried right = isLeftOnly ? null : carried(join.right(), call);
        if (left != null && right != null) throw ambiguous(call);
        if (left == null && right == null) return null;
        Join above = new Join(
            left == null ? join.left() : left.plan, right == null ? join.right() : right.plan, join.joinType(),
            join.condition(), join.hint());
        return new Carried(above, left == null ? right.column : left.column);
    }

    private static LogicalPlan over(LogicalPlan node, LogicalPlan child) {
        return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(Arrays.asList(new Object[] {child})).toSeq());
    }

    private static IllegalArgumentException ambiguous(SearchCall call) {
        return new IllegalArgumentException(
            "indextables.errors.QueryError: cannot tell which search " + call.udf.name() + "() belongs to because two tables are "
                + "searched below it\nhint: put each search into its own subquery, with its score as a column");
    }
}
