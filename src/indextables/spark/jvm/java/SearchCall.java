package indextables.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** A call of one of our functions in a plan; the driver's Python reads it from the function's pickle. */
final class SearchCall {
    static final List SEARCHES = Arrays.asList(new Object[] {"textsearch", "fieldmatch", "indexquery"});
    static final String SCORE = "score";
    static final String SNIPPET = "snippet";
    private static final List NONE = new ArrayList();
    private static final Map KNOWN = Collections.synchronizedMap(new WeakHashMap());
    private static volatile Function describe;

    final PythonUDF udf;
    private final List said;

    private SearchCall(PythonUDF udf, List said) {
        this.udf = udf;
        this.said = said;
    }

    /** Remember the description of a new function. */
    static void remember(PythonFunction function, List does) {
        KNOWN.put(function, does);
    }

    /** `describe` takes a pickled function, and returns its description, an array; empty if it is not ours. */
    static void describeBy(Function describing) {
        describe = describing;
    }

    /** The call in an expression; null if the expression is none. */
    static SearchCall of(Object expression) {
        if (!(expression instanceof PythonUDF) || describe == null) return null;
        PythonUDF udf = (PythonUDF) expression;
        if (!SEARCHES.contains(udf.name()) && !SCORE.equals(udf.name()) && !SNIPPET.equals(udf.name())) return null;
        List said = (List) KNOWN.get(udf.func());
        if (said == null) {
            byte[] command = bytes(CollectionConverters.asJava(udf.func().command()));
            said = Texts.list(Texts.checked(describe.apply(command)));
            KNOWN.put(udf.func(), said);
        }
        return said.isEmpty() ? null : new SearchCall(udf, said);
    }

    private static byte[] bytes(List command) {
        byte[] found = new byte[command.size()];
        for (int i = 0; i < found.length; i++) found[i] = ((Byte) command.get(i)).byteValue();
        return found;
    }

    /** All calls in an expression, including nested ones. */
    static List in(Expression expression) {
        SearchCall call = of(expression);
        if (call == null && expression.children().isEmpty()) return NONE;
        List found = new ArrayList();
        if (call != null) found.add(call);
        List children = CollectionConverters.asJava(expression.children());
        for (int i = 0; i < children.size(); i++) found.addAll(in((Expression) children.get(i)));
        return found;
    }

    /** All calls in the expressions of a node. */
    static List in(LogicalPlan node) {
        List found = new ArrayList();
        List expressions = CollectionConverters.asJava(node.expressions());
        for (int i = 0; i < expressions.size(); i++) found.addAll(in((Expression) expressions.get(i)));
        return found;
    }

    boolean isSearch() {
        return said.get(0).equals("search");
    }

    boolean isScore() {
        return said.get(0).equals(SCORE);
    }

    /** The column of a snippet. */
    String column() {
        return (String) said.get(1);
    }

    /** A condition as JSON, if a scan can decide all of it by its index; else null. */
    static String predicate(Expression condition, LogicalPlan scan) {
        if (condition instanceof And) {
            return joined("and", ((And) condition).left(), ((And) condition).right(), scan);
        }
        if (condition instanceof Or) return joined("or", ((Or) condition).left(), ((Or) condition).right(), scan);
        if (condition instanceof Not) {
            String child = predicate(((Not) condition).child(), scan);
            return child == null ? null : "{\"op\":\"not\",\"part\":" + child + "}";
        }
        SearchCall call = of(condition);
        return call != null && call.isSearch() && call.isOn(scan) ? (String) call.said.get(1) : null;
    }

    private static String joined(String word, Expression left, Expression right, LogicalPlan scan) {
        String first = predicate(left, scan);
        String second = first == null ? null : predicate(right, scan);
        return second == null ? null : "{\"op\":\"" + word + "\",\"parts\":[" + first + "," + second + "]}";
    }

    /** Whether a scan has the columns of a search, by the names in the search. */
    private boolean isOn(LogicalPlan scan) {
        List children = CollectionConverters.asJava(udf.children());
        for (int i = 2; i < said.size(); i++) {
            Object child = children.get(i - 2);
            if (!(child instanceof Attribute) || !scan.outputSet().contains((Attribute) child)) return false;
            if (!((Attribute) child).name().equals(said.get(i))) return false;
        }
        return true;
    }
}
