package indextables.spark;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.TempResolvedColumn;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.LateralColumnAliasReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * The search functions of SQL. Each call is a Python function that decides on rows by their values, wherever it stands;
 * `SearchRules` gives those to the index that it can decide.
 */
final class SearchFunctions extends AbstractFunction1 {
    private static final int ARROW_UDF = 250;
    private final String name;
    private final PythonFunction pattern;
    private final Function build;

    private SearchFunctions(String name, PythonFunction pattern, Function build) {
        this.name = name;
        this.pattern = pattern;
        this.build = build;
    }

    /**
     * `build` takes a call as JSON, and gives the pickle of a function, the places of its columns among the arguments,
     * and what it does. A session takes the functions to be built in, so that they may stand in views that outlive it.
     */
    static void register(FunctionRegistry functions, PythonFunction pattern, Function build) {
        List names = new ArrayList(SearchCall.SEARCHES);
        names.add(SearchCall.SCORE);
        names.add(SearchCall.SNIPPET);
        for (int i = 0; i < names.size(); i++) {
            String name = (String) names.get(i);
            functions.registerFunction(
                FunctionRegistry$.MODULE$.builtinFunctionIdentifier(name),
                new ExpressionInfo(PythonUDF.class.getName(), name), new SearchFunctions(name, pattern, build));
        }
    }

    public Object apply(Object given) {
        List arguments = CollectionConverters.asJava((scala.collection.Seq) given);
        boolean isSearch = SearchCall.SEARCHES.contains(name);
        if (isSearch && arguments.size() < 2) {
            throw new IllegalArgumentException(
                "cannot use " + name + " because it takes columns and a text, as in `" + name + "(message, 'disk')`");
        }
        int numColumns = isSearch ? arguments.size() - 1 : arguments.size();
        Map call = new HashMap();
        call.put("function", name);
        call.put("text", isSearch ? text((Expression) arguments.get(numColumns)) : null);
        List columns = new ArrayList();
        for (int i = 0; i < numColumns; i++) columns.add(column((Expression) arguments.get(i)));
        call.put("columns", columns);
        Map built = Texts.map(Texts.checked(build.apply(Texts.json(call))));
        List places = (List) built.get("places");
        List children = new ArrayList();
        for (int i = 0; i < places.size(); i++) children.add(arguments.get(((Number) places.get(i)).intValue()));
        if (isSearch) children.add(arguments.get(numColumns));
        PythonFunction function = new SimplePythonFunction(
            Base64.getDecoder().decode((String) built.get("pickle")), pattern.envVars(), pattern.pythonIncludes(),
            pattern.pythonExec(), pattern.pythonVer(), pattern.broadcastVars(), pattern.accumulator());
        SearchCall.remember(function, (List) built.get("does"));
        return new PythonUDF(
            name, function, type(), CollectionConverters.asScala(children).toSeq(), ARROW_UDF,
            isSearch, NamedExpression$.MODULE$.newExprId());
    }

    private DataType type() {
        if (name.equals(SearchCall.SCORE)) return DataTypes.FloatType;
        return name.equals(SearchCall.SNIPPET) ? DataTypes.StringType : DataTypes.BooleanType;
    }

    private String text(Expression argument) {
        Object value = argument.foldable() ? argument.eval(null) : null;
        if (value instanceof UTF8String) return value.toString();
        throw new IllegalArgumentException(
            "cannot use " + name + " because what to search for is not a text that is known beforehand: "
                + argument.sql());
    }

    /** A column as it is known while Spark analyses a query, or the column that fields are taken out of. */
    private static Map column(Expression argument) {
        List fields = new ArrayList();
        Expression found = named(argument);
        while (found instanceof GetStructField) {
            fields.add(0, ((GetStructField) found).extractFieldName());
            found = named(((GetStructField) found).child());
        }
        Map column = new HashMap();
        column.put("name", found instanceof NamedExpression ? ((NamedExpression) found).name() : found.sql());
        column.put("metadata", found instanceof NamedExpression ? ((NamedExpression) found).metadata().json() : "{}");
        column.put("fields", fields);
        return column;
    }

    /** The column behind what stands for it in HAVING, in a correlated subquery, or as a name of the same SELECT. */
    private static Expression named(Expression argument) {
        if (argument instanceof TempResolvedColumn) return named(((TempResolvedColumn) argument).child());
        if (argument instanceof OuterReference) return named((Expression) ((OuterReference) argument).e());
        if (argument instanceof LateralColumnAliasReference) return ((LateralColumnAliasReference) argument).a();
        return argument;
    }
}
