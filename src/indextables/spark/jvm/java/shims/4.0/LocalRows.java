package indextables.spark;

import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.Seq;

/** The node of a physical plan with rows of its own. */
final class LocalRows {
    static SparkPlan of(Seq columns, Seq rows) {
        return new LocalTableScanExec(columns, rows, Option.empty());
    }
}
