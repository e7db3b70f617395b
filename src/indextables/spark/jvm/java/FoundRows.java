package indextables.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.PlanLater;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Rows that the driver found itself, and their node in a physical plan, which shows the search. */
final class FoundRows implements LocalScan {
    private final String note;
    private final List rows;
    private final StructType schema;

    FoundRows(String note, List rows, StructType schema) {
        this.note = note;
        this.rows = rows;
        this.schema = schema;
    }

    public StructType readSchema() {
        return schema;
    }

    public String description() {
        return "(found on the driver)";
    }

    public InternalRow[] rows() {
        return (InternalRow[]) rows.toArray(new InternalRow[0]);
    }

    /** Show these rows as ours in the physical plans of a session. */
    static void show(ExperimentalMethods methods) {
        List strategies = new ArrayList(CollectionConverters.asJava(methods.extraStrategies()));
        for (int i = 0; i < strategies.size(); i++) if (strategies.get(i) instanceof Strategy) return;
        strategies.add(new Strategy());
        methods.extraStrategies_$eq(CollectionConverters.asScala(strategies).toSeq());
    }

    private static final class Strategy extends SparkStrategy {
        public Seq apply(LogicalPlan plan) {
            List found = new ArrayList();
            if (isOurs(plan)) found.add(planned(plan));
            return CollectionConverters.asScala(found).toSeq();
        }

        /** Spark would plan the node directly above a scan together with the scan. */
        private static boolean isOurs(Object plan) {
            if (plan instanceof Project) return isOurs(((Project) plan).child());
            if (plan instanceof Filter) return isOurs(((Filter) plan).child());
            return plan instanceof DataSourceV2ScanRelation
                && ((DataSourceV2ScanRelation) plan).scan() instanceof FoundRows;
        }

        private static SparkPlan planned(LogicalPlan plan) {
            if (plan instanceof Project) {
                return new ProjectExec(((Project) plan).projectList(), new PlanLater(((Project) plan).child()));
            }
            if (plan instanceof Filter) {
                return new FilterExec(((Filter) plan).condition(), new PlanLater(((Filter) plan).child()));
            }
            FoundRows found = (FoundRows) ((DataSourceV2ScanRelation) plan).scan();
            // Present rows, like the result of a command; EXPLAIN shows their origin below.
            return new CommandResultExec(plan.output(), found.shown(), CollectionConverters.asScala(found.rows).toSeq());
        }
    }

    /** A node of Spark that shows the search in the name of its only column. */
    private SparkPlan shown() {
        Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        List columns = new ArrayList();
        columns.add(new AttributeReference(
            note + ", found on the driver", DataTypes.StringType, true, Metadata.empty(),
            NamedExpression$.MODULE$.newExprId(), none));
        List rows = Collections.singletonList(new GenericInternalRow(1));
        return LocalRows.of(CollectionConverters.asScala(columns).toSeq(), CollectionConverters.asScala(rows).toSeq());
    }
}
