package indextables.spark;

import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** Rows that the driver has found while a query was planned, as a table of a plan. */
final class FoundTable implements SupportsRead {
    private final String note;
    private final List rows;
    private final StructType schema;

    private FoundTable(String note, List rows, StructType schema) {
        this.note = note;
        this.rows = rows;
        this.schema = schema;
    }

    /** The rows as a node with these columns. */
    static LogicalPlan of(String note, List rows, StructType schema, List output) {
        return Relations.of(new FoundTable(note, rows, schema), CollectionConverters.asScala(output).toSeq());
    }

    public String name() {
        return note;
    }

    public StructType schema() {
        return schema;
    }

    public Set capabilities() {
        return Collections.singleton(TableCapability.BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        final FoundRows found = new FoundRows(note, rows, schema);
        return new ScanBuilder() {
            public Scan build() {
                return found;
            }
        };
    }
}
