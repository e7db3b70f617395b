package indextables.spark;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Frames in a statement, as calls of a table function: creating a view for each would take longer than a search. */
final class Frames extends AbstractFunction1 {
    static final String FUNCTION = "__indextables_frame";
    private static final Map PLANS = new ConcurrentHashMap();

    static void register(TableFunctionRegistry functions) {
        functions.registerFunction(
            CatalogParts.builtin(FUNCTION),
            new ExpressionInfo(LogicalPlan.class.getName(), FUNCTION), new Frames());
    }

    /** Keep a frame under a name until it is dropped. */
    static void keep(String name, Dataset frame) {
        PLANS.put(name, ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().analyzed());
    }

    static void drop(String name) {
        PLANS.remove(name);
    }

    public Object apply(Object given) {
        List arguments = CollectionConverters.asJava((scala.collection.Seq) given);
        Object name = arguments.size() == 1 ? ((Expression) arguments.get(0)).eval(null) : null;
        Object plan = name == null ? null : PLANS.get(name.toString());
        if (plan == null) throw new IllegalArgumentException("cannot use " + FUNCTION + " because it is internal to this library");
        return plan;
    }
}
