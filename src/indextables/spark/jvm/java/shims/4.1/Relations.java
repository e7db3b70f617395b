package indextables.spark;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;

/** Nodes of Spark's plans that read tables. */
final class Relations {
    static DataSourceV2Relation of(Table table) {
        return DataSourceV2Relation.create(
            table, Option.empty(), Option.empty(), CaseInsensitiveStringMap.empty(), Option.empty());
    }

    static DataSourceV2Relation of(Table table, Seq output) {
        return new DataSourceV2Relation(
            table, output, Option.empty(), Option.empty(), CaseInsensitiveStringMap.empty(), Option.empty());
    }

    /** A load of another table in place of one. */
    static DataSourceV2Relation over(DataSourceV2Relation load, Table table, Seq output) {
        return new DataSourceV2Relation(
            table, output, load.catalog(), load.identifier(), load.options(), load.timeTravelSpec());
    }

    static PythonScan scan(PythonDataSourceV2 source, String format, StructType schema, CaseInsensitiveStringMap options) {
        return new PythonScan(source, format, schema, options, new Filter[0]);
    }
}
