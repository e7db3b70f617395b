package indextables.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Aggregations directly above one of our scans. The log or the indexes answer them while a query is planned, if they can
 * do so exactly; otherwise Spark aggregates the rows.
 */
final class AggregateRules {
    private final Aggregate aggregate;
    private final AskedScan scan;
    private final List measures = new ArrayList();
    private final List measured = new ArrayList();
    private final List output = new ArrayList();
    private Attribute group;

    private AggregateRules(Aggregate aggregate, AskedScan scan) {
        this.aggregate = aggregate;
        this.scan = scan;
    }

    /** The answer of an aggregation; null if Spark has to find it. */
    static LogicalPlan answered(Aggregate aggregate) {
        if (aggregate.isStreaming() || aggregate.groupingExpressions().size() > 1) return null;
        AskedScan scan = AskedScan.below(aggregate.child());
        if (scan == null) return null;
        AggregateRules rules = new AggregateRules(aggregate, scan);
        return rules.isUnderstood() ? rules.answer() : null;
    }

    /** Whether every measure and the group can be asked for. */
    private boolean isUnderstood() {
        if (!aggregate.groupingExpressions().isEmpty()) {
            Object key = aggregate.groupingExpressions().head();
            if (!(key instanceof Attribute) || scan.name((Attribute) key) == null) return false;
            group = (Attribute) key;
            if (group.dataType() instanceof org.apache.spark.sql.types.StringType
                && !group.dataType().equals(DataTypes.StringType)) return false;
            output.add(column(group.name(), group.dataType(), group.nullable()));
        }
        List results = CollectionConverters.asJava(aggregate.aggregateExpressions());
        for (int i = 0; i < results.size(); i++) if (!addMeasures((Expression) results.get(i))) return false;
        return true;
    }

    private boolean addMeasures(Expression expression) {
        if (expression instanceof AggregateExpression) return addMeasure((AggregateExpression) expression);
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) if (!addMeasures((Expression) children.get(i))) return false;
        return true;
    }

    private boolean addMeasure(AggregateExpression expression) {
        if (expression.isDistinct() || !expression.filter().isEmpty() || expression.mode() != Complete$.MODULE$) return false;
        AggregateFunction function = expression.aggregateFunction();
        if (function.children().size() != 1) return false;
        Object child = function.children().head();
        List measure = new ArrayList();
        if (function instanceof Count && child instanceof Literal && ((Literal) child).value() != null) {
            measure.add("count");
        } else {
            String name = child instanceof Attribute ? scan.name((Attribute) child) : null;
            String word = name == null ? null : word(function, ((Attribute) child).dataType());
            if (word == null || group != null) return false;
            measure.add(word);
            measure.add(name);
        }
        measures.add(measure);
        measured.add(expression);
        output.add(column("measure " + measures.size(), expression.dataType(), expression.nullable()));
        return true;
    }

    private static String word(AggregateFunction function, DataType type) {
        boolean isWhole = type.equals(DataTypes.ByteType) || type.equals(DataTypes.ShortType)
            || type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType);
        boolean isTime = type.equals(DataTypes.DateType) || type.equals(DataTypes.TimestampType)
            || type.equals(DataTypes.TimestampNTZType);
        if (isWhole && function instanceof Sum) return "sum";
        if (isWhole && function instanceof Average) return "avg";
        if (!isWhole && !isTime) return null;
        if (function instanceof Count) return "count";
        if (function instanceof Min) return "min";
        return function instanceof Max ? "max" : null;
    }

    private static AttributeReference column(String name, DataType type, boolean nullable) {
        return new AttributeReference(
            name, type, nullable, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), none());
    }

    private LogicalPlan answer() {
        StructType schema = new StructType();
        for (int i = 0; i < output.size(); i++) {
            AttributeReference column = (AttributeReference) output.get(i);
            schema = schema.add(column.name(), column.dataType(), column.nullable());
        }
        Map request = new HashMap();
        request.put("schema", schema.json());
        request.put("measures", measures);
        request.put("options", scan.options);
        if (group != null) request.put("group", scan.name(group));
        byte[] rows = (byte[]) Texts.checked(scan.opened.aggregate.apply(Texts.json(request)));
        if (rows.length == 0) return null;
        LogicalPlan found = FoundTable.of(
            scan.opened.format + " " + scan.opened.title + scan.note() + ", aggregated", Rows.of(rows), schema, output);
        List results = CollectionConverters.asJava(aggregate.aggregateExpressions());
        List shown = new ArrayList();
        for (int i = 0; i < results.size(); i++) shown.add(shown((NamedExpression) results.get(i)));
        return new Project(CollectionConverters.asScala(shown).toSeq(), found);
    }

    /** A result of the aggregation, computed from the columns that the driver found. */
    private Alias shown(NamedExpression result) {
        Expression value = result instanceof Alias ? ((Alias) result).child() : (Expression) result;
        final AggregateRules rules = this;
        Expression found = (Expression) value.transformDown(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return rules.found(node) != null;
            }

            public Object applyOrElse(Object node, scala.Function1 otherwise) {
                Object found = rules.found(node);
                return found == null ? otherwise.apply(node) : found;
            }
        });
        return new Alias(
            found, result.name(), result.exprId(), (Seq) result.qualifier(), scala.Option.apply(result.metadata()), none());
    }

    private Object found(Object node) {
        int first = group == null ? 0 : 1;
        if (group != null && node instanceof Attribute && ((Attribute) node).exprId().equals(group.exprId())) return output.get(0);
        if (!(node instanceof AggregateExpression)) return null;
        for (int i = 0; i < measured.size(); i++) {
            AggregateExpression known = (AggregateExpression) measured.get(i);
            if (known.resultId().equals(((AggregateExpression) node).resultId())) return output.get(first + i);
        }
        return null;
    }

    private static Seq none() {
        return CollectionConverters.asScala(new ArrayList()).toSeq();
    }
}
