package indextables.spark;

import java.net.URI;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Parts of Spark's session catalog. */
final class CatalogParts {
    /** The class of a catalog manager that holds the default session catalog. */
    static Class managerClass() {
        return CatalogManager.class;
    }

    /** The name of a function that Spark brings. */
    static FunctionIdentifier builtin(String name) {
        return new FunctionIdentifier(name);
    }

    /**
     * Register a function like those that Spark brings. Here they have no namespace: a function is temporary, and no
     * persistent view may use it, unless the functions of all sessions have its name.
     */
    static void register(FunctionRegistry functions, String name, ExpressionInfo info, Function1 made) {
        functions.registerFunction(builtin(name), info, made);
        FunctionRegistry all = FunctionRegistry$.MODULE$.builtin();
        if (!all.functionExists(builtin(name))) all.registerFunction(builtin(name), info, made);
    }

    static Column[] columns(StructType schema) {
        return CatalogV2Util.structTypeToV2Columns(schema);
    }

    static CatalogStorageFormat storage(URI place, Map properties) {
        return new CatalogStorageFormat(
            Option.apply(place), Option.empty(), Option.empty(), Option.empty(), false, properties);
    }

    static CatalogTable table(
        TableIdentifier name, CatalogTableType kind, CatalogStorageFormat storage, StructType schema, String format,
        Seq partitions, Map properties, Object comment) {
        return new CatalogTable(
            name, kind, storage, schema, Option.apply(format), partitions, Option.empty(), CatalogTable.apply$default$8(),
            CatalogTable.apply$default$9(), CatalogTable.apply$default$10(), CatalogTable.apply$default$11(), properties,
            Option.empty(), Option.empty(), Option.apply(comment), Option.empty(), CatalogTable.apply$default$17(), false,
            true, CatalogTable.apply$default$20(), Option.empty());
    }
}
