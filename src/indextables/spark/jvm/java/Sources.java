package indextables.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The origins of the columns of a plan: each attribute is traced to a relation of the plan. Metadata of columns is
 * ignored, because copies of a column keep it.
 */
final class Sources {
    private static final Object COMPUTED = new Object();
    private static final Object UNSEEN = new Object();
    private static final String[] PARTS = {"search", "where", "limit"};

    /** One of our tables in a plan. */
    static final class Relation {
        final LogicalPlan node;
        final Object table;
        final CaseInsensitiveStringMap options;

        private Relation(LogicalPlan node, Object table, CaseInsensitiveStringMap options) {
            this.node = node;
            this.table = table;
            this.options = options;
        }

        String place() {
            return table instanceof CatalogLoad ? (String) ((CatalogLoad) table).told.get("location") : options.get("path");
        }

        boolean isWhole() {
            for (int i = 0; i < PARTS.length; i++) {
                if (options.containsKey(PARTS[i])) return false;
            }
            return !(table instanceof PrivateScan) || ((PrivateScan) table).asked.searches.isEmpty();
        }
    }

    /** A column of one of our tables, by its name there. */
    static final class Column {
        final Relation relation;
        final String name;

        private Column(Relation relation, String name) {
            this.relation = relation;
            this.name = name;
        }
    }

    private final String format;
    private final Map found = new HashMap();
    private final Map shared = new HashMap();
    private final List references = new ArrayList();

    private Sources(String format) {
        this.format = format;
    }

    static Sources of(LogicalPlan plan, String format) {
        Sources sources = new Sources(format);
        sources.walk(plan);
        for (int i = 0; i < sources.references.size(); i++) sources.follow((CTERelationRef) sources.references.get(i));
        return sources;
    }

    /**
     * Whether a node of the plan produces an attribute: it is no column of an outer query, nor of a common table
     * expression that an outer query defines.
     */
    boolean knows(Attribute attribute) {
        Object origin = origin(attribute);
        return origin != null && origin != UNSEEN;
    }

    /** The column behind an attribute, whatever its alias; null if it is computed or of another source. */
    Column column(Attribute attribute) {
        Object origin = origin(attribute);
        return origin instanceof Column ? (Column) origin : null;
    }

    private Object origin(Attribute attribute) {
        Object at = found.get(attribute.exprId());
        for (int i = 0; i < found.size() && at instanceof ExprId; i++) at = found.get(at);
        return at;
    }

    /**
     * The attribute of this query or of an outer one in an expression; null if the expression is computed. A view of the
     * catalog casts its columns to the types of its creation. A `char` is padded, and the table holds the padding.
     */
    static Attribute attribute(Object expression) {
        if (expression instanceof OuterReference) return attribute(((OuterReference) expression).e());
        if (expression instanceof Cast && ((Cast) expression).dataType().equals(((Cast) expression).child().dataType())) {
            return attribute(((Cast) expression).child());
        }
        if (expression instanceof StaticInvoke && ((StaticInvoke) expression).functionName().equals("readSidePadding")) {
            return attribute(((StaticInvoke) expression).arguments().head());
        }
        return expression instanceof Attribute ? (Attribute) expression : null;
    }

    /** JSON with the locations of the tables behind a plan, and whether the plan selects all rows of one unchanged. */
    static String json(LogicalPlan plan, String format) {
        Sources sources = of(plan, format);
        Set places = new LinkedHashSet();
        boolean isWhole = isPlain(plan, format);
        List output = CollectionConverters.asJava(plan.output());
        for (int i = 0; i < output.size(); i++) {
            Column column = sources.column((Attribute) output.get(i));
            if (column != null) places.add(column.relation.place());
            isWhole = isWhole && column != null && column.relation.isWhole()
                && column.name.equalsIgnoreCase(((Attribute) output.get(i)).name());
        }
        Map answer = new HashMap();
        answer.put("places", places);
        answer.put("isWhole", Boolean.valueOf(isWhole));
        return Texts.json(answer);
    }

    private static boolean isPlain(LogicalPlan plan, String format) {
        LogicalPlan node = plan;
        while (node instanceof SubqueryAlias || node instanceof View || node instanceof Project) {
            node = (LogicalPlan) node.children().head();
        }
        return relation(node, format) != null;
    }

    /** The table of ours that a leaf of a plan reads; null for other nodes. */
    static Relation relation(LogicalPlan node, String format) {
        if (node instanceof DataSourceV2Relation) {
            DataSourceV2Relation load = (DataSourceV2Relation) node;
            return relation(node, load.table(), load.options(), format);
        }
        if (node instanceof StreamingRelationV2) {
            StreamingRelationV2 load = (StreamingRelationV2) node;
            return relation(node, load.table(), load.extraOptions(), format);
        }
        LiveSplits splits = NativeScan.splitsOf(node);
        if (splits == null || splits.opened == null) return null;
        return new Relation(node, splits, new CaseInsensitiveStringMap(splits.opened.options));
    }

    private static Relation relation(LogicalPlan node, Object table, CaseInsensitiveStringMap options, String format) {
        if (table instanceof PrivateScan) {
            return new Relation(node, table, new CaseInsensitiveStringMap(((PrivateScan) table).opened.options));
        }
        if (!(table instanceof PythonTable)) return null;
        boolean isOurs = table instanceof CatalogLoad || format.equalsIgnoreCase(((PythonTable) table).name());
        return isOurs ? new Relation(node, table, options) : null;
    }

    private void walk(LogicalPlan node) {
        List children = CollectionConverters.asJava(node.children());
        for (int i = 0; i < children.size(); i++) walk((LogicalPlan) children.get(i));
        List expressions = CollectionConverters.asJava(node.expressions());
        for (int i = 0; i < expressions.size(); i++) walk((Expression) expressions.get(i));
        if (node instanceof CTERelationDef) shared.put(Long.valueOf(((CTERelationDef) node).id()), node);
        if (node instanceof CTERelationRef) references.add(node);
        Relation relation = relation(node, format);
        List output = CollectionConverters.asJava(node.output());
        for (int i = 0; i < output.size(); i++) {
            Attribute attribute = (Attribute) output.get(i);
            if (relation != null) found.put(attribute.exprId(), new Column(relation, attribute.name()));
            else if (!found.containsKey(attribute.exprId())) {
                found.put(attribute.exprId(), node instanceof CTERelationRef ? UNSEEN : COMPUTED);
            }
        }
    }

    private void walk(Expression expression) {
        if (expression instanceof Alias) {
            Attribute named = attribute(((Alias) expression).child());
            found.put(((Alias) expression).exprId(), named == null ? COMPUTED : named.exprId());
        }
        if (expression instanceof PlanExpression) walk((LogicalPlan) ((PlanExpression) expression).plan());
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) walk((Expression) children.get(i));
    }

    /** The columns of a common table expression are the columns of its definition, under new names. */
    private void follow(CTERelationRef reference) {
        LogicalPlan definition = (LogicalPlan) shared.get(Long.valueOf(reference.cteId()));
        if (definition == null) return;
        List defined = CollectionConverters.asJava(definition.output());
        List output = CollectionConverters.asJava(reference.output());
        for (int i = 0; i < output.size() && i < defined.size(); i++) {
            Object from = ((Attribute) defined.get(i)).exprId();
            if (!from.equals(((Attribute) output.get(i)).exprId())) found.put(((Attribute) output.get(i)).exprId(), from);
        }
    }
}
