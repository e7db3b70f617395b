package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Searches in a plan: the index decides those directly above a scan, values decide the rest. */
final class SearchRules {
    private final ScanRules.ReplaceLoads loads;

    SearchRules(ScanRules.ReplaceLoads loads) {
        this.loads = loads;
    }

    /** Whether a plan may call our functions, by Spark's record of the kinds of its nodes. */
    static boolean mayCall(LogicalPlan plan) {
        return plan.containsPattern(TreePattern$.MODULE$.PYTHON_UDF());
    }

    /** The plan with its searches as close to the index as possible. */
    LogicalPlan applied(LogicalPlan plan) {
        final SearchRules rules = this;
        return (LogicalPlan) besideJoins(plan).transformUp(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof Filter && !SearchCall.in((Filter) node).isEmpty();
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                return isDefinedAt(node) ? rules.pushed((Filter) node) : otherwise.apply(node);
            }
        });
    }

    private LogicalPlan pushed(Filter filter) {
        List conjuncts = conjuncts(filter.condition(), new ArrayList());
        List searches = new ArrayList();
        List left = new ArrayList();
        boolean isMovable = true;
        for (int i = 0; i < conjuncts.size(); i++) {
            Expression conjunct = (Expression) conjuncts.get(i);
            // A nondeterministic condition must see the same rows as before.
            isMovable = isMovable && (conjunct.deterministic() || !SearchCall.in(conjunct).isEmpty());
            String search = isMovable ? SearchCall.predicate(conjunct, filter.child()) : null;
            if (search == null) left.add(conjunct);
            else searches.add(search);
        }
        if (searches.isEmpty()) return filter;
        LogicalPlan scan = SearchedScan.searching(filter.child(), loads.opened(filter.child()), searches);
        if (scan == null) return filter;
        return left.isEmpty() ? scan : new Filter(joined(left), scan);
    }

    /** Move searches in join conditions below the join: Spark allows no Python functions there in outer joins. */
    private static LogicalPlan besideJoins(LogicalPlan plan) {
        return (LogicalPlan) plan.transformUp(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof Join && !SearchCall.in((LogicalPlan) node).isEmpty();
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                return isDefinedAt(node) ? besideJoin((Join) node) : otherwise.apply(node);
            }
        });
    }

    private static LogicalPlan besideJoin(Join join) {
        List calls = SearchCall.in(join);
        LogicalPlan left = join.left();
        LogicalPlan right = join.right();
        Expression condition = (Expression) join.condition().get();
        for (int i = 0; i < calls.size(); i++) {
            SearchCall call = (SearchCall) calls.get(i);
            if (!call.isSearch()) continue;
            boolean isLeft = call.udf.references().subsetOf(join.left().outputSet());
            if (!isLeft && !call.udf.references().subsetOf(join.right().outputSet())) continue;
            Alias alias = named(call.udf);
            if (isLeft) left = with(left, alias);
            else right = with(right, alias);
            condition = replaced(condition, call.udf, alias.toAttribute());
        }
        if (left == join.left() && right == join.right()) return join;
        Join other = new Join(left, right, join.joinType(), scala.Option.apply(condition), join.hint());
        return new Project((scala.collection.immutable.Seq) join.output(), other);
    }

    private static Alias named(PythonUDF udf) {
        scala.collection.immutable.Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        return new Alias(udf, udf.name(), NamedExpression$.MODULE$.newExprId(), none, scala.Option.empty(), none);
    }

    private static LogicalPlan with(LogicalPlan plan, Alias alias) {
        List columns = new ArrayList(CollectionConverters.asJava(plan.output()));
        columns.add(alias);
        return new Project(CollectionConverters.asScala(columns).toSeq(), plan);
    }

    static Expression replaced(Expression expression, final PythonUDF udf, final Attribute attribute) {
        return (Expression) expression.transformUp(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof PythonUDF && ((PythonUDF) node).semanticEquals(udf)
                    || node instanceof PythonUDF && ((PythonUDF) node).resultId().equals(udf.resultId());
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                return isDefinedAt(node) ? attribute : otherwise.apply(node);
            }
        });
    }

    static List conjuncts(Expression condition, List found) {
        if (!(condition instanceof And)) {
            found.add(condition);
            return found;
        }
        conjuncts(((And) condition).left(), found);
        return conjuncts(((And) condition).right(), found);
    }

    private static Expression joined(List conjuncts) {
        Expression condition = (Expression) conjuncts.get(0);
        for (int i = 1; i < conjuncts.size(); i++) condition = new And(condition, (Expression) conjuncts.get(i));
        return condition;
    }

    /** Refuses plans with a score or snippet but no search below it; otherwise they would fail at the first row. */
    static final class CheckScores extends Rule {
        public TreeNode apply(TreeNode plan) {
            if (mayCall((LogicalPlan) plan)) SearchScores.check((LogicalPlan) plan);
            return plan;
        }
    }
}
