package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.runtime.AbstractFunction1;

/**
 * The search functions of SQL. Each call waits until `SearchColumns` assigns its columns. Then it is a Python function
 * that decides on rows by their values, at any place in a plan; `SearchRules` pushes calls down to indexes.
 */
final class SearchFunctions extends AbstractFunction1 {
    private static final int ARROW_UDF = 250;
    private static final byte[] WAITING = "indextables: waits for its columns".getBytes();
    private final String name;
    private final PythonFunction pattern;

    private SearchFunctions(String name, PythonFunction pattern) {
        this.name = name;
        this.pattern = pattern;
    }

    /** Register the functions as built-in, so that they may be used in views that outlive the session. */
    static void register(FunctionRegistry functions, PythonFunction pattern) {
        List names = new ArrayList(SearchCall.SEARCHES);
        names.add(SearchCall.SCORE);
        names.add(SearchCall.SNIPPET);
        for (int i = 0; i < names.size(); i++) {
            String name = (String) names.get(i);
            CatalogParts.register(
                functions, name, new ExpressionInfo(PythonUDF.class.getName(), name), new SearchFunctions(name, pattern));
        }
    }

    public Object apply(Object given) {
        scala.collection.immutable.Seq arguments = (scala.collection.immutable.Seq) given;
        boolean isSearch = SearchCall.SEARCHES.contains(name);
        if (isSearch && arguments.size() < 2) {
            throw new IllegalArgumentException(
                "cannot use " + name + " because it takes columns and a text, as in `" + name + "(message, 'disk')`");
        }
        return new PythonUDF(
            name, function(pattern, WAITING), type(), arguments, ARROW_UDF, isSearch,
            NamedExpression$.MODULE$.newExprId());
    }

    /** A function that runs like `pattern`, by its pickle. */
    static PythonFunction function(PythonFunction pattern, byte[] pickle) {
        return new SimplePythonFunction(
            pickle, pattern.envVars(), pattern.pythonIncludes(), pattern.pythonExec(), pattern.pythonVer(),
            pattern.broadcastVars(), pattern.accumulator());
    }

    /** Whether an expression is a call without columns. */
    static boolean isWaiting(Object expression) {
        if (!(expression instanceof PythonUDF)) return false;
        scala.collection.Seq command = ((PythonUDF) expression).func().command();
        if (command.size() != WAITING.length) return false;
        for (int i = 0; i < WAITING.length; i++) {
            if (((Byte) command.apply(i)).byteValue() != WAITING[i]) return false;
        }
        return true;
    }

    private DataType type() {
        if (name.equals(SearchCall.SCORE)) return DataTypes.FloatType;
        return name.equals(SearchCall.SNIPPET) ? DataTypes.StringType : DataTypes.BooleanType;
    }
}
