package indextables.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Assigns columns to calls of the search functions, once the surrounding plan is resolved: a column is searched as it is
 * indexed by the table that the plan reads it from.
 */
final class SearchColumns extends Rule {
    private static final Map OF_SESSIONS = Collections.synchronizedMap(new WeakHashMap());

    private final String format;
    private final Function open;
    private final PythonFunction pattern;
    private final Function build;
    private final Function describe;

    private SearchColumns(
        String format, Function open, PythonFunction pattern, Function build, Function describe) {
        this.format = format;
        this.open = open;
        this.pattern = pattern;
        this.build = build;
        this.describe = describe;
    }

    /**
     * Install the rule in one session, whether or not the session has run queries. `build` takes a call as JSON, and
     * returns the pickle of a function, the positions of its columns among the arguments, and its description. `describe`
     * takes the options of a stream as JSON, and describes the indexing of its columns.
     */
    static void install(
        SparkSession session, String format, Function open, PythonFunction pattern, Function build, Function describe)
        throws ReflectiveOperationException {
        SearchColumns rule = new SearchColumns(format, open, pattern, build, describe);
        if (OF_SESSIONS.put(session, rule) != null) return;
        Object analyzer = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().analyzer();
        append(analyzer, "postHocResolutionRules", new OfSession(session));
        append(analyzer, "extendedCheckRules", new Check());
    }

    /** Rules that are injected into a session do not reach an existing analyzer. */
    private static void append(Object analyzer, String name, Object rule) throws ReflectiveOperationException {
        for (Class kind = analyzer.getClass(); kind != null; kind = kind.getSuperclass()) {
            Field[] fields = kind.getDeclaredFields();
            for (int i = 0; i < fields.length; i++) {
                if (!fields[i].getName().equals(name)) continue;
                fields[i].setAccessible(true);
                List rules = new ArrayList(CollectionConverters.asJava((Seq) fields[i].get(analyzer)));
                rules.add(rule);
                fields[i].set(analyzer, CollectionConverters.asScala(rules).toSeq());
                return;
            }
        }
        throw new NoSuchFieldException(name);
    }

    /** The rule of a session, from its latest enabling. */
    private static final class OfSession extends Rule {
        private final java.lang.ref.WeakReference session;

        OfSession(SparkSession session) {
            this.session = new java.lang.ref.WeakReference(session);
        }

        public TreeNode apply(TreeNode plan) {
            return applied((SparkSession) session.get(), (LogicalPlan) plan);
        }
    }

    /** A plan with the columns of its searches, as far as they are resolved. */
    static LogicalPlan applied(SparkSession session, LogicalPlan plan) {
        SearchColumns rule = (SearchColumns) OF_SESSIONS.get(session);
        return rule == null ? plan : (LogicalPlan) rule.apply((TreeNode) plan);
    }

    public TreeNode apply(TreeNode node) {
        LogicalPlan plan = (LogicalPlan) node;
        if (!SearchRules.mayCall(plan) || !plan.resolved() || waiting(plan) == null) return plan;
        final Sources sources = Sources.of(plan, format);
        final SearchColumns rule = this;
        return plan.transformAllExpressionsWithSubqueries(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object expression) {
                return SearchFunctions.isWaiting(expression) && areKnown((PythonUDF) expression, sources);
            }

            public Object applyOrElse(Object expression, scala.Function1 otherwise) {
                return isDefinedAt(expression) ? rule.bound((PythonUDF) expression, sources) : otherwise.apply(expression);
            }
        });
    }

    /** Whether all columns belong to this query; columns of an outer query are resolved later. */
    private static boolean areKnown(PythonUDF call, Sources sources) {
        List arguments = CollectionConverters.asJava(call.children());
        for (int i = 0; i < arguments.size(); i++) {
            Attribute attribute = Sources.attribute(arguments.get(i));
            if (attribute != null && !sources.knows(attribute)) return false;
        }
        return true;
    }

    private PythonUDF bound(PythonUDF call, Sources sources) {
        List arguments = CollectionConverters.asJava(call.children());
        boolean isSearch = SearchCall.SEARCHES.contains(call.name());
        int numColumns = isSearch ? arguments.size() - 1 : arguments.size();
        Map asked = new HashMap();
        asked.put("function", call.name());
        asked.put("text", isSearch ? text(call.name(), (Expression) arguments.get(numColumns)) : null);
        List columns = new ArrayList();
        for (int i = 0; i < numColumns; i++) columns.add(column((Expression) arguments.get(i), sources));
        asked.put("columns", columns);
        Map built = Texts.map(Texts.checked(build.apply(Texts.json(asked))));
        List places = (List) built.get("places");
        List children = new ArrayList();
        for (int i = 0; i < places.size(); i++) children.add(arguments.get(((Number) places.get(i)).intValue()));
        if (isSearch) children.add(arguments.get(numColumns));
        PythonFunction function = SearchFunctions.function(pattern, Base64.getDecoder().decode((String) built.get("pickle")));
        SearchCall.remember(function, (List) built.get("does"));
        return new PythonUDF(
            call.name(), function, call.dataType(), CollectionConverters.asScala(children).toSeq(), call.evalType(),
            call.udfDeterministic(), call.resultId());
    }

    private static String text(String name, Expression argument) {
        Object value = argument.foldable() ? argument.eval(null) : null;
        if (value instanceof UTF8String) return value.toString();
        throw new IllegalArgumentException(
            "cannot use " + name + " because the text to search for is not known beforehand: "
                + argument.sql());
    }

    /** An argument by its name, or the column of its struct, with its indexing if it is one of our columns. */
    private Map column(Expression argument, Sources sources) {
        List fields = new ArrayList();
        Expression found = argument;
        while (found instanceof GetStructField) {
            fields.add(0, ((GetStructField) found).extractFieldName());
            found = ((GetStructField) found).child();
        }
        Map described = new HashMap();
        Attribute attribute = Sources.attribute(found);
        described.put("name", attribute != null ? attribute.name() : found.sql());
        described.put("fields", fields);
        Sources.Column column = attribute == null ? null : sources.column(attribute);
        described.put("field", column == null ? null : fields(column.relation).get(column.name));
        return described;
    }

    private Map fields(Sources.Relation relation) {
        if (relation.table instanceof CatalogLoad) return (Map) ((CatalogLoad) relation.table).told.get("fields");
        if (relation.table instanceof PrivateScan) return ((PrivateScan) relation.table).opened.fields();
        if (relation.table instanceof LiveSplits) return ((LiveSplits) relation.table).opened.fields();
        if (relation.node instanceof DataSourceV2Relation) {
            DataSourceV2Relation load = (DataSourceV2Relation) relation.node;
            return ScanRules.opened(load, ScanRules.sourceOf((PythonTable) relation.table), format, open).fields();
        }
        return Texts.map(Texts.checked(describe.apply(Texts.json(relation.options.asCaseSensitiveMap()))));
    }

    /** The first call in a plan without columns; null if there is none. */
    private static PythonUDF waiting(LogicalPlan plan) {
        if (!SearchRules.mayCall(plan)) return null;
        List expressions = CollectionConverters.asJava(plan.expressions());
        for (int i = 0; i < expressions.size(); i++) {
            PythonUDF call = waiting((Expression) expressions.get(i));
            if (call != null) return call;
        }
        List children = CollectionConverters.asJava(plan.children());
        for (int i = 0; i < children.size(); i++) {
            PythonUDF call = waiting((LogicalPlan) children.get(i));
            if (call != null) return call;
        }
        return null;
    }

    private static PythonUDF waiting(Expression expression) {
        if (SearchFunctions.isWaiting(expression)) return (PythonUDF) expression;
        if (expression instanceof PlanExpression) {
            PythonUDF call = waiting((LogicalPlan) ((PlanExpression) expression).plan());
            if (call != null) return call;
        }
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) {
            PythonUDF call = waiting((Expression) children.get(i));
            if (call != null) return call;
        }
        return null;
    }

    /** Refuse a plan with a search whose columns were not found. */
    static void check(LogicalPlan plan) {
        PythonUDF call = waiting(plan);
        if (call != null) {
            throw CatalogTables.refused("QueryError", "cannot use " + call.name().toUpperCase() + " in `" + call.sql()
                + "` because its columns are not columns of a table of this format");
        }
    }

    private static final class Check extends AbstractFunction1 {
        public Object apply(Object plan) {
            check((LogicalPlan) plan);
            return BoxedUnit.UNIT;
        }
    }
}
