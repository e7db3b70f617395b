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
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DefaultCatalogManager;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Parts of Spark's session catalog. */
final class CatalogParts {
    /** The class of a catalog manager that holds the default session catalog. */
    static Class managerClass() {
        return DefaultCatalogManager.class;
    }

    /** The name of a function that Spark brings. */
    static FunctionIdentifier builtin(String name) {
        return FunctionRegistry$.MODULE$.builtinFunctionIdentifier(name);
    }

    /** Register a function like those that Spark brings. */
    static void register(FunctionRegistry functions, String name, ExpressionInfo info, Function1 made) {
        functions.registerFunction(builtin(name), info, made);
    }

    static Column[] columns(StructType schema) {
        return CatalogV2Util.structTypeToV2Columns(schema, true);
    }

    static CatalogStorageFormat storage(URI place, Map properties) {
        return new CatalogStorageFormat(
            Option.apply(place), Option.empty(), Option.empty(), Option.empty(), false, properties, Option.empty());
    }

    static CatalogTable table(
        TableIdentifier name, CatalogTableType kind, CatalogStorageFormat storage, StructType schema, String format,
        Seq partitions, Map properties, Object comment) {
        return new CatalogTable(
            name, kind, storage, schema, Option.apply(format), partitions, Option.empty(), CatalogTable.apply$default$8(),
            CatalogTable.apply$default$9(), CatalogTable.apply$default$10(), CatalogTable.apply$default$11(), properties,
            Option.empty(), Option.empty(), Option.apply(comment), Option.empty(), CatalogTable.apply$default$17(), false,
            true, CatalogTable.apply$default$20(), Option.empty(), Option.empty());
    }
}
